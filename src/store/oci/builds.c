#include "store/oci/builds.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "store/oci/blobs.h"
#include "util/auto.h"
#include "util/str.h"
#include "util/system/io.h"

#define LOOK_AGAIN 0.3

int builds_take(
	const struct store *st, const struct op *op, char **ret_dir, int *ret_fd, struct err *e)
{
	auto_free char *dir = NULL;

	if (str_printf(&dir, e, "%s/storage", st->builds) < 0)
		return -1;
	for (bool waiting = false;; waiting = true) {
		enum hold got;

		if (dir_make(dir, 0700, e) < 0)
			return -1;
		got = hold_dir(st->builds, HOLD_ALONE, ret_fd, e);
		if (got == HOLD_FAILED)
			return -1;
		if (got == HOLD_OK && dir_make(dir, 0700, e) < 0)
			return -1;
		if (got == HOLD_OK) {
			futimens(*ret_fd, NULL); /* it was used now */
			*ret_dir = take_ptr(&dir);
			return 0;
		}
		if (!waiting)
			op_progress(op, 0, 0, "waiting for another build of a Dockerfile");
		if (op_pause(op, LOOK_AGAIN, e) < 0)
			return err_wrap(e, "waiting for another build of a Dockerfile");
	}
}

int builds_drop(const struct store *st, int64_t unused_s, struct err *e)
{
	auto_fd int hold = -1;
	enum hold got;
	struct stat sb;

	if (!path_exists(st->builds))
		return 0;
	got = hold_dir(st->builds, HOLD_ALONE, &hold, e);
	if (got != HOLD_OK)
		return got == HOLD_FAILED ? -1 : 0;
	if (fstat(hold, &sb) < 0)
		return err_sys(e, errno, "%s", st->builds);
	if (sb.st_mtime > time(NULL) - unused_s)
		return 0;
	return catalog_delete_dir(st, st->builds, e) < 0 ? -1 : 1;
}

/* ---- what is kept for later images ---- */

enum { KEPT_S = 7 * 24 * 3600 };

int store_drop_kept(struct store *st, bool all, void (*report)(void *arg, const char *text),
	void *arg, struct err *e)
{
	uint64_t freed = blobs_trim(st, all ? 0 : st->container_cache);
	char text[96];
	int got;

	snprintf(text, sizeof(text), "%llu MiB of layers of container images",
		(unsigned long long)(freed >> 20));
	if (freed && report)
		report(arg, text);
	got = builds_drop(st, all ? -1 : KEPT_S, e);
	if (got == 1 && report)
		report(arg, "what builds of Dockerfiles have kept");
	return got < 0 ? err_wrap(e, "image store") : 0;
}
