#include "store/import/download.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/str.h"
#include "util/system/io.h"
#include "util/system/paths.h"

enum {
	CONNECT_S = 30,
	SILENT_S = 120, /* give up when the server sends nothing for so long */
	LOOK_MS = 1000,
	TELL_EACH = 1 << 20, /* bytes */
	TRIES = 5,           /* without a byte in between */
	MIB = 1 << 20,
};

struct download {
	CURL *easy;
	CURLM *multi;
	struct buf got; /* bytes for the reader */
	size_t given;   /* how many of them the reader has */
	uint64_t from, done, told;
	uint64_t max; /* 0: any */
	bool ended;
	char why[CURL_ERROR_SIZE];
};

static size_t take(char *p, size_t size, size_t n, void *arg)
{
	struct download *d = arg;
	struct err e;

	return buf_add(&d->got, p, size * n, &e) < 0 ? 0 : size * n;
}

static CURLcode initialised;

static void initialise(void)
{
	initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
}

int download_init(struct err *e)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, initialise);
	return initialised == CURLE_OK ? 0 : err_set(e, ERR_INTERNAL, "libcurl does not start");
}

void download_close(struct download *d)
{
	if (!d)
		return;
	if (d->multi && d->easy)
		curl_multi_remove_handle(d->multi, d->easy);
	curl_easy_cleanup(d->easy);
	curl_multi_cleanup(d->multi);
	buf_free(&d->got);
	free(d);
}

static bool set_up(struct download *d, const char *url)
{
	CURL *c = d->easy;
	const char *ca_file = paths_ca_file();
	/* A redirection from https must not lead to http, where nothing proves who the
	 * server is. */
	const char *onward = str_starts(url, "https://") ? "https" : "http,https";

	return curl_easy_setopt(c, CURLOPT_URL, url) == CURLE_OK &&
	       (!ca_file || curl_easy_setopt(c, CURLOPT_CAINFO, ca_file) == CURLE_OK) &&
	       curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, onward) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_MAXREDIRS, 8L) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)d->from) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)SILENT_S) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_ERRORBUFFER, d->why) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_WRITEDATA, d) == CURLE_OK &&
	       curl_multi_add_handle(d->multi, c) == CURLM_OK;
}

int download_open(
	const char *url, uint64_t from, uint64_t max, struct download **ret, struct err *e)
{
	auto_download struct download *d = calloc(1, sizeof(*d));

	if (!d)
		return err_oom(e);
	if (download_init(e) < 0)
		return -1;
	d->from = from;
	d->max = max;
	d->easy = curl_easy_init();
	d->multi = curl_multi_init();
	if (!d->easy || !d->multi || !set_up(d, url))
		return err_set(e, ERR_INTERNAL, "libcurl cannot download %s", url);
	*ret = take_ptr(&d);
	return 0;
}

static int look_for_end(struct download *d, struct err *e)
{
	const CURLMsg *m;
	long status = 0;
	int left;

	while ((m = curl_multi_info_read(d->multi, &left))) {
		if (m->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(d->easy, CURLINFO_RESPONSE_CODE, &status);
		if (m->data.result == CURLE_RANGE_ERROR || (d->from && status == 416))
			return err_set(e, ERR_UNSUPPORTED, "the server cannot continue a download");
		if (m->data.result == CURLE_HTTP_RETURNED_ERROR && status >= 400 && status < 500)
			return err_set(e, status == 403 ? ERR_PERMISSION : ERR_NOT_FOUND,
				"the server answers %ld", status);
		if (m->data.result != CURLE_OK)
			return err_set(e, ERR_UNAVAILABLE, "the download failed: %s",
				d->why[0] ? d->why : curl_easy_strerror(m->data.result));
		d->ended = true;
	}
	return 0;
}

/* libcurl waits for its own sockets and for the fd that cancels the op. */
static int wait_for_more(struct download *d, const struct op *op, struct err *e)
{
	struct curl_waitfd cancel = {.fd = op->cancel_fd, .events = CURL_WAIT_POLLIN};

	if (op_check(op, e) < 0)
		return -1;
	if (curl_multi_poll(d->multi, &cancel, op->cancel_fd >= 0, LOOK_MS, NULL) != CURLM_OK)
		return err_set(e, ERR_INTERNAL, "libcurl cannot wait");
	return 0;
}

/* How many bytes the whole has, as far as the server has said; 0: it has not. */
static uint64_t whole_size(const struct download *d)
{
	curl_off_t rest = 0;

	curl_easy_getinfo(d->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &rest);
	return rest > 0 ? d->from + (uint64_t)rest : 0;
}

static unsigned long long in_mib(uint64_t bytes)
{
	return (bytes + MIB - 1) / MIB;
}

static int check_max(const struct download *d, struct err *e)
{
	uint64_t whole = whole_size(d), here = d->from + d->done;

	if (d->max == 0 || (whole <= d->max && here <= d->max))
		return 0;
	if (whole > here)
		return err_set(e, ERR_LIMIT, "it has %llu MiB, and at most %llu are downloaded",
			in_mib(whole), in_mib(d->max));
	return err_set(e, ERR_LIMIT, "it has more than the %llu MiB that are downloaded at most",
		in_mib(d->max));
}

ssize_t download_read(
	struct download *d, const struct op *op, const char *text, const void **ret, struct err *e)
{
	int running;

	buf_drop(&d->got, d->given);
	d->given = 0;
	while (!d->got.len && !d->ended) {
		if (curl_multi_perform(d->multi, &running) != CURLM_OK)
			return err_set(e, ERR_INTERNAL, "libcurl cannot go on");
		if (d->got.len)
			break; /* what arrived before a failure is taken, too */
		if (look_for_end(d, e) < 0)
			return -1;
		if (!d->ended && wait_for_more(d, op, e) < 0)
			return -1;
	}
	if (op_check(op, e) < 0)
		return -1;
	d->given = d->got.len;
	d->done += d->given;
	if (check_max(d, e) < 0)
		return -1;
	if (d->done - d->told >= TELL_EACH) {
		d->told = d->done;
		op_progress(op, d->from + d->done, whole_size(d), "%s", text);
	}
	*ret = buf_data(&d->got);
	return (ssize_t)d->given;
}

int download_small(const struct op *op, const char *url, size_t max, struct buf *ret, struct err *e)
{
	auto_download struct download *d = NULL;
	const void *part;
	ssize_t n;

	if (download_open(url, 0, 0, &d, e) < 0)
		return -1;
	while ((n = download_read(d, op, "downloading", &part, e)) > 0) {
		if (ret->len + (size_t)n > max)
			return err_set(e, ERR_LIMIT, "%s: more than %zu bytes", url, max);
		if (buf_add(ret, part, (size_t)n, e) < 0)
			return -1;
	}
	return n < 0 ? err_wrap(e, "%s", url) : 0;
}

/* A disk that is full fails whoever else writes there, running VMs first. */
static int check_room(const struct download *d, int fd, uint64_t at, struct err *e)
{
	uint64_t whole = whole_size(d), room;
	struct statvfs fs;

	if (whole <= at || fstatvfs(fd, &fs) < 0)
		return 0;
	room = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (whole - at <= room)
		return 0;
	err_set(e, ERR_LIMIT, "there are %llu MiB to download, and %llu free for them",
		in_mib(whole - at), in_mib(room));
	e->sys = ENOSPC;
	return -1;
}

/* Downloads from the file's end on, until the end or a failure. */
static int download_part(const struct op *op, const struct download_file *f, struct err *e)
{
	off_t at = lseek(f->fd, 0, SEEK_END), begin = at;
	auto_download struct download *d = NULL;
	const void *part;
	ssize_t n;

	if (at < 0)
		return err_sys(e, errno, "seek");
	if (download_open(f->url, (uint64_t)at, f->max, &d, e) < 0)
		return -1;
	while ((n = download_read(d, op, f->text, &part, e)) > 0) {
		if (at == begin && check_room(d, f->fd, (uint64_t)at, e) < 0)
			return -1;
		if (file_write_at(f->fd, part, (size_t)n, at, e) < 0)
			return -1;
		at += n;
	}
	return n < 0 ? -1 : 0;
}

int download_rest(const struct op *op, const struct download_file *f, struct err *e)
{
	off_t before = lseek(f->fd, 0, SEEK_END);
	bool anew = false;

	for (int tries = 1;; tries++) {
		off_t now;

		if (download_part(op, f, e) == 0)
			return 0;
		/* What is there cannot be continued: begin anew, once. */
		if (e->kind == ERR_UNSUPPORTED && !anew && lseek(f->fd, 0, SEEK_END) > 0) {
			anew = true;
			if (ftruncate(f->fd, 0) < 0)
				return err_sys(e, errno, "truncate");
			before = 0;
			continue;
		}
		now = lseek(f->fd, 0, SEEK_END);
		if (now > before)
			tries = 0;
		before = now;
		if (e->kind != ERR_UNAVAILABLE || tries >= TRIES)
			return err_wrap(e, "%s", f->url);
		if (op_pause(op, 1 << tries, e) < 0)
			return -1;
	}
}
