#include "store/import/download.h"

#include <curl/curl.h>

#include "util/auto.h"
#include "util/buf.h"
#include "util/str.h"
#include "util/system/paths.h"

enum {
	CONNECT_S = 30,
	SILENT_S = 120, /* give up when the server sends nothing for so long */
	LOOK_MS = 1000,
};

struct download {
	CURL *easy;
	CURLM *multi;
	struct buf got; /* bytes for the reader */
	size_t given;   /* how many of them the reader has */
	uint64_t done, told;
	bool ended;
	char why[CURL_ERROR_SIZE];
};

static size_t take(char *p, size_t size, size_t n, void *arg)
{
	struct download *d = arg;
	struct err e;

	return buf_add(&d->got, p, size * n, &e) < 0 ? 0 : size * n;
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
	       curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)SILENT_S) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_ERRORBUFFER, d->why) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_WRITEDATA, d) == CURLE_OK &&
	       curl_multi_add_handle(d->multi, c) == CURLM_OK;
}

int download_open(const char *url, struct download **ret, struct err *e)
{
	auto_download struct download *d = calloc(1, sizeof(*d));

	if (!d)
		return err_oom(e);
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
	int left;

	while ((m = curl_multi_info_read(d->multi, &left))) {
		if (m->msg != CURLMSG_DONE)
			continue;
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

ssize_t download_read(
	struct download *d, const struct op *op, const char *text, const void **ret, struct err *e)
{
	curl_off_t total = 0;
	int running;

	buf_drop(&d->got, d->given);
	d->given = 0;
	while (!d->got.len && !d->ended) {
		if (curl_multi_perform(d->multi, &running) != CURLM_OK)
			return err_set(e, ERR_INTERNAL, "libcurl cannot go on");
		if (look_for_end(d, e) < 0)
			return -1;
		if (!d->got.len && !d->ended && wait_for_more(d, op, e) < 0)
			return -1;
	}
	if (op_check(op, e) < 0)
		return -1;
	d->given = d->got.len;
	d->done += d->given;
	if (d->done - d->told >= 8 * 1024 * 1024) {
		d->told = d->done;
		curl_easy_getinfo(d->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &total);
		op_progress(op, d->done, total > 0 ? (uint64_t)total : 0, "%s", text);
	}
	*ret = buf_data(&d->got);
	return (ssize_t)d->given;
}
