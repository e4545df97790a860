#include "store/oci/blobs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/str.h"
#include "util/system/io.h"
#include "util/system/sha256-file.h"

int blobs_lend(
	const struct store *st, const struct op *op, const char *hex, const char *to, struct err *e)
{
	auto_free char *path = NULL;
	char its[SHA256_HEX + 1];
	auto_fd int fd = -1;

	if (str_printf(&path, e, "%s/%s", st->blobs, hex) < 0)
		return -1;
	if (link(path, to) < 0)
		return errno == ENOENT ? 0 : err_sys(e, errno, "%s", to);
	fd = open(to, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return err_sys(e, errno, "%s", to);
	if (sha256_file(op, fd, "checking layers that are here", its, e) < 0)
		return -1;
	if (strcmp(its, hex) == 0) {
		futimens(fd, NULL); /* it was used now */
		return 1;
	}
	unlink(path); /* a power cut has damaged it */
	return unlink(to) < 0 ? err_sys(e, errno, "%s", to) : 0;
}

void blobs_keep(const struct store *st, const char *hex, const char *from)
{
	auto_free char *path = NULL;
	struct err ignored;

	if (dir_make(st->blobs, 0700, &ignored) < 0 ||
		str_printf(&path, &ignored, "%s/%s", st->blobs, hex) < 0)
		return;
	if (link(from, path) == 0)
		chmod(path, 0644); /* a confined process reads it; the directory is closed */
}

struct blob {
	char *path;
	uint64_t size;
	struct timespec used;
};

static int by_use(const void *a, const void *b)
{
	const struct blob *x = a, *y = b;

	if (x->used.tv_sec != y->used.tv_sec)
		return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
	return (x->used.tv_nsec > y->used.tv_nsec) - (x->used.tv_nsec < y->used.tv_nsec);
}

uint64_t blobs_trim(const struct store *st, uint64_t max)
{
	auto_name_list struct name_list names = {0};
	auto_free struct blob *blobs = NULL;
	uint64_t all = 0, freed = 0;
	struct err ignored; /* the next trim deletes them */
	size_t n = 0;

	if (catalog_entries(st->blobs, "", &names, &ignored) < 0)
		return 0;
	blobs = calloc(names.n + 1, sizeof(*blobs));
	for (size_t i = 0; blobs && i < names.n; i++) {
		struct stat sb;

		if (str_printf(&blobs[n].path, &ignored, "%s/%s", st->blobs, names.items[i]) < 0)
			continue;
		if (stat(blobs[n].path, &sb) < 0) {
			free(blobs[n].path);
			continue;
		}
		blobs[n].size = (uint64_t)sb.st_blocks * 512;
		blobs[n].used = sb.st_mtim;
		all += blobs[n++].size;
	}
	if (n)
		qsort(blobs, n, sizeof(*blobs), by_use);
	for (size_t i = 0; i < n; i++) {
		if (all - freed > max && unlink(blobs[i].path) == 0)
			freed += blobs[i].size;
		free(blobs[i].path);
	}
	return freed;
}
