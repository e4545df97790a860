#include "store/make/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/import/download.h"
#include "util/auto.h"
#include "util/str.h"
#include "util/system/io.h"
#include "util/system/proc.h"
#include "util/system/sha256-file.h"

enum { KEY_MAX = 16, NAME_KEPT = 100 };
#define LOOK_AGAIN 0.2

static int downloads_dir(const struct store *st, char **ret, struct err *e)
{
	return str_printf(ret, e, "%s/" CATALOG_DOWNLOADS, st->cache);
}

int fetch_name(const char *url, char **ret, struct err *e)
{
	size_t n = strcspn(url, "?#");
	const char *at = memrchr(url, '/', n);

	if (!at || at == url || at[-1] == '/' || url + n == at + 1)
		return err_set(e, ERR_INVALID, "%s names no file", url);
	return str_printf(ret, e, "%.*s", (int)(url + n - at - 1), at + 1);
}

/* A file that is continued must be the same: its name has the checksum in it, or else the URL's
 * and our own number. */
static int path_for(const struct store *st, const struct fetch_req *req, char **ret, struct err *e)
{
	auto_free char *dir = NULL, *name = NULL;
	char hex[SHA256_HEX + 1];
	struct sha256 sum;

	if (downloads_dir(st, &dir, e) < 0 || fetch_name(req->url, &name, e) < 0 ||
		dir_make(dir, 0700, e) < 0)
		return -1;
	for (char *c = name; *c; c++)
		if (*c == '/' || (unsigned char)*c < ' ')
			*c = '-';
	sha256_start(&sum);
	sha256_add(&sum, req->url, strlen(req->url));
	sha256_end(&sum, hex);
	/* The end of a name tells what is in the file. */
	return str_printf(ret, e, "%s/%.*s-%s", dir, KEY_MAX, req->digits ? req->sum : hex,
		strlen(name) > NAME_KEPT ? name + strlen(name) - NAME_KEPT : name);
}

/* Takes the file, which another process may be downloading. */
static int hold_download(const struct op *op, const char *path, int *ret_fd, struct err *e)
{
	for (;;) {
		enum hold got = hold_file(path, HOLD_ALONE, ret_fd, e);

		if (got == HOLD_FAILED || got == HOLD_OK)
			return got == HOLD_OK ? 0 : -1;
		if (op_pause(op, LOOK_AGAIN, e) < 0)
			return err_wrap(e, "waiting for another download of the same file");
	}
}

static int sha512_file(
	const struct op *op, const char *path, char ret_hex[SUM_HEX_MAX + 1], struct err *e)
{
	const char *argv[] = {"sha512sum", "--", path, NULL};
	struct proc_req req = {.argv = argv, .out_max = 64 * 1024};
	auto_proc_result struct proc_result res = {0};

	if (proc_run(op, &req, &res, e) < 0)
		return -1;
	if (res.exit_code || res.out.len < SUM_HEX_MAX)
		return err_set(e, ERR_INTERNAL, "sha512sum fails");
	snprintf(ret_hex, SUM_HEX_MAX + 1, "%.*s", SUM_HEX_MAX, (const char *)buf_data(&res.out));
	return 0;
}

static int hash(const struct op *op, const struct fetch_req *req, const char *path, int fd,
	char ret_hex[SUM_HEX_MAX + 1], struct err *e)
{
	op_progress(op, 0, 0, "checking the download");
	return req->digits == SHA256_HEX ? sha256_file(op, fd, "checking the download", ret_hex, e)
					 : sha512_file(op, path, ret_hex, e);
}

/* Whether all of the file is there already: it was interrupted between download and use. */
static int is_complete(const struct op *op, const struct fetch_req *req, const char *path, int fd,
	bool *ret, struct err *e)
{
	char hex[SUM_HEX_MAX + 1];
	struct stat st;

	*ret = false;
	if (fstat(fd, &st) < 0)
		return err_sys(e, errno, "%s", path);
	if (!req->digits || st.st_size == 0)
		return 0;
	if (hash(op, req, path, fd, hex, e) < 0)
		return -1;
	*ret = strcmp(hex, req->sum) == 0;
	return 0;
}

static int download(const struct store *st, const struct op *op, const struct fetch_req *req,
	const char *path, int fd, struct err *e)
{
	char hex[SUM_HEX_MAX + 1];
	bool complete;

	if (!req->digits && ftruncate(fd, 0) < 0)
		return err_sys(e, errno, "%s", path);
	if (is_complete(op, req, path, fd, &complete, e) < 0)
		return -1;
	if (complete)
		return 0;
	op_progress(op, 0, 0, "%s", req->text);
	if (download_rest(op,
		    &(struct download_file){
			    .url = req->url, .fd = fd, .max = st->download_max, .text = req->text},
		    e) < 0) {
		/* A part that cannot be completed is only in the way. */
		if (!req->digits || e->kind == ERR_LIMIT || e->sys == ENOSPC || e->sys == EDQUOT)
			unlink(path);
		return -1;
	}
	if (!req->digits)
		return 0;
	if (hash(op, req, path, fd, hex, e) < 0)
		return -1;
	if (strcmp(hex, req->sum) == 0)
		return 0;
	unlink(path);
	return err_set(e, ERR_INVALID, "%s: its checksum is %.16s..., not %.16s...: it was altered",
		req->url, hex, req->sum);
}

int fetch_file(const struct store *st, const struct op *op, const struct fetch_req *req,
	char **ret_path, int *ret_fd, struct err *e)
{
	auto_free char *path = NULL;
	auto_fd int fd = -1;

	if (path_for(st, req, &path, e) < 0 || hold_download(op, path, &fd, e) < 0 ||
		download(st, op, req, path, fd, e) < 0)
		return -1;
	*ret_fd = take_fd(&fd);
	*ret_path = take_ptr(&path);
	return 0;
}
