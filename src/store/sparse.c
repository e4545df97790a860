#include "store/sparse.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "util/auto.h"
#include "util/system/memory.h"

enum { PIECE = 1 << 20 };

struct copier {
	const struct op *op;
	int in, out; /* out -1: only sum */
	const char *text;
	uint8_t *piece;
	uint64_t size;
	bool slowly; /* memory is short: what is written goes to the disk at once */
	XXH3_state_t *sum;
};

static bool all_zero(const uint8_t *p, size_t n)
{
	return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

/* Pages of zeros become holes, and are left out of the checksum, as holes are: memory has many that
 * the file system does not know of. */
static int put(struct copier *c, off_t at, size_t n, struct err *e)
{
	enum { PAGE = 4096 };

	for (size_t i = 0; i < n; i += PAGE) {
		size_t len = n - i < PAGE ? n - i : PAGE;
		uint64_t place[2] = {(uint64_t)at + i, len};

		if (all_zero(c->piece + i, len))
			continue;
		XXH3_64bits_update(c->sum, place, sizeof(place));
		XXH3_64bits_update(c->sum, c->piece + i, len);
		if (c->out >= 0) {
			ssize_t done = pwrite(c->out, c->piece + i, len, at + (off_t)i);

			/* A file system that takes a part of it is full. */
			if (done != (ssize_t)len)
				return err_sys(e, done < 0 ? errno : ENOSPC, "write");
		}
	}
	return 0;
}

static int copy_range(struct copier *c, off_t at, off_t end, struct err *e)
{
	while (at < end) {
		size_t want = end - at < PIECE ? (size_t)(end - at) : PIECE;
		ssize_t got = pread(c->in, c->piece, want, at);

		if (got < 0)
			return err_sys(e, errno, "read");
		if (got == 0)
			return err_set(e, ERR_BACKEND, "a file was cut short");
		if (put(c, at, (size_t)got, e) < 0 || op_check(c->op, e) < 0)
			return -1;
		if (c->slowly && fdatasync(c->out) < 0)
			return err_sys(e, errno, "write");
		at += got;
		if (c->text)
			op_progress(c->op, (uint64_t)at, c->size, "%s", c->text);
	}
	return 0;
}

static int copy_all(struct copier *c, struct err *e)
{
	struct stat st;
	off_t at = 0;

	if (fstat(c->in, &st) < 0)
		return err_sys(e, errno, "stat");
	c->size = (uint64_t)st.st_size;
	c->slowly = c->out >= 0 && !memory_backs(c->out) &&
		    memory_is_short((uint64_t)st.st_blocks * 512);
	XXH3_64bits_reset(c->sum);
	while (at < st.st_size) {
		off_t data = lseek(c->in, at, SEEK_DATA), hole;

		if (data < 0 && errno == ENXIO)
			break;
		if (data < 0)
			return err_sys(e, errno, "seek");
		hole = lseek(c->in, data, SEEK_HOLE);
		if (hole < 0)
			return err_sys(e, errno, "seek");
		/* Whole pages only: a file system's blocks may begin anywhere. */
		data -= data % 4096;
		if (copy_range(c, data, hole, e) < 0)
			return -1;
		at = hole;
	}
	if (c->out >= 0 && ftruncate(c->out, st.st_size) < 0)
		return err_sys(e, errno, "truncate");
	XXH3_64bits_update(c->sum, &c->size, sizeof(c->size));
	return 0;
}

static int run(struct copier *c, uint64_t *ret_sum, struct err *e)
{
	int rc;

	c->piece = malloc(PIECE);
	c->sum = XXH3_createState();
	rc = c->piece && c->sum ? copy_all(c, e) : err_oom(e);
	if (rc == 0)
		*ret_sum = XXH3_64bits_digest(c->sum);
	free(c->piece);
	XXH3_freeState(c->sum);
	return rc;
}

int sparse_copy(
	const struct op *op, int in, int out, const char *text, uint64_t *ret_sum, struct err *e)
{
	struct copier c = {.op = op, .in = in, .out = out, .text = text};

	return run(&c, ret_sum, e);
}

int sparse_sum(const struct op *op, int fd, uint64_t *ret_sum, struct err *e)
{
	struct copier c = {.op = op, .in = fd, .out = -1};

	return run(&c, ret_sum, e);
}

int sparse_clone(const struct op *op, const char *from, const char *to, struct err *e)
{
	auto_fd int in = open(from, O_RDONLY | O_CLOEXEC), out = -1;
	uint64_t sum;

	if (in < 0)
		return err_sys(e, errno, "%s", from);
	if (unlink(to) < 0 && errno != ENOENT)
		return err_sys(e, errno, "%s", to);
	out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (out < 0)
		return err_sys(e, errno, "%s", to);
	if (ioctl(out, FICLONE, in) == 0)
		return 0;
	if (sparse_copy(op, in, out, NULL, &sum, e) < 0)
		return err_wrap(e, "%s", to);
	return 0;
}

int ram_new(uint64_t size, int *ret, struct err *e)
{
	auto_fd int fd = memfd_create("moat-ram", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return err_sys(e, errno, "memfd");
	if (ftruncate(fd, (off_t)size) < 0)
		return err_sys(e, errno, "memory of %llu bytes", (unsigned long long)size);
	*ret = take_fd(&fd);
	return 0;
}

int ram_seal(int fd, struct err *e)
{
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return err_sys(e, errno, "seal memory");
	return 0;
}
