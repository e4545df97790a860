#include "store/import/decompress.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/system/io.h"
#include "util/system/proc.h"

#define FILE_FD   120
#define FILE_PATH "/proc/self/fd/120"
enum { PIECE = 1 << 20, BLOCK = 4096, NO_PROGRAM = 127 };
static const uint64_t size_max = (uint64_t)1 << 40;

static const char *program_for(enum probe_kind kind)
{
	switch (kind) {
	case PROBE_GZIP:
		return "gzip";
	case PROBE_XZ:
		return "xz";
	default:
		return "zstd";
	}
}

static bool is_zero(const uint8_t *p, size_t n)
{
	return p[0] == 0 && memcmp(p, p + 1, n - 1) == 0;
}

/* Blocks of zeros are left out: holes read as zeros. */
static int put(int fd, const uint8_t *p, size_t n, uint64_t at, struct err *e)
{
	for (size_t i = 0; i < n; i += BLOCK) {
		size_t len = n - i < BLOCK ? n - i : BLOCK;

		if (!is_zero(p + i, len) && file_write_at(fd, p + i, len, (off_t)(at + i), e) < 0)
			return -1;
	}
	return 0;
}

static int take_all(
	const struct op *op, const struct decompress_req *req, int from, int to, struct err *e)
{
	auto_free uint8_t *piece = malloc(PIECE);
	uint64_t at = 0;

	if (!piece)
		return err_oom(e);
	for (;;) {
		ssize_t n;

		if (op_wait_fd(op, from, POLLIN, e) < 0)
			return -1;
		n = read(from, piece, PIECE);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0)
			return err_sys(e, errno, "%s", req->text);
		if (n == 0)
			break;
		if (at + (uint64_t)n > size_max)
			return err_set(e, ERR_INVALID, "unpacked it has more than 1 TiB");
		if (put(to, piece, (size_t)n, at, e) < 0)
			return -1;
		at += (uint64_t)n;
		op_progress(op, at, 0, "%s", req->text);
	}
	return ftruncate(to, (off_t)at) < 0 ? err_sys(e, errno, "%s", req->text) : 0;
}

int decompress(const struct op *op, const struct decompress_req *req, struct err *e)
{
	const char *program = program_for(req->kind);
	/* -f: it reads from a link, which FILE_PATH is. */
	const char *argv[] = {program, "-d", "-c", "-f", FILE_PATH, NULL};
	struct proc_fd fd = {.fd = req->fd, .as = FILE_FD};
	struct proc_req child = {.argv = argv,
		.fds = &fd,
		.n_fds = 1,
		.guard = req->helper_path,
		.confine = "image"};
	auto_proc struct proc proc = PROC_NONE;
	auto_fd int to = open(req->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	auto_fd int from = -1;
	int ends[2], code, rc;

	/* All may read it, in a directory that is closed to others: for qemu-img. */
	if (to < 0 || fchmod(to, 0644) < 0)
		return err_sys(e, errno, "%s", req->path);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, errno, "pipe");
	from = ends[0];
	child.out_fd = ends[1];
	rc = proc_start(&child, &proc, e);
	close(ends[1]);
	if (rc < 0 || fd_set_nonblock(from, e) < 0 || take_all(op, req, from, to, e) < 0 ||
		proc_wait(op, &proc, &code, e) < 0)
		return -1;
	if (code == NO_PROGRAM)
		return err_set(e, ERR_UNSUPPORTED, "%s is not installed", program);
	return code == 0 ? 0 : err_set(e, ERR_INVALID, "it is damaged, or cut short");
}
