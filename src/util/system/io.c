#include "util/system/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "util/auto.h"
#include "util/str.h"

int fd_set_nonblock(int fd, struct err *e)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return err_sys(e, errno, "fcntl");
	return 0;
}

static bool would_block(int eno)
{
	return eno == EAGAIN || eno == EWOULDBLOCK || eno == EINTR;
}

int io_write_all(const struct op *op, int fd, const void *p, size_t n, struct err *e)
{
	const uint8_t *at = p;

	while (n) {
		ssize_t done = write(fd, at, n);

		if (done < 0 && !would_block(errno))
			return err_sys(e, errno, "write");
		if (done < 0) {
			if (op_wait_fd(op, fd, POLLOUT, e) < 0)
				return -1;
			continue;
		}
		at += done;
		n -= (size_t)done;
	}
	return 0;
}

int file_write_at(int fd, const void *p, size_t n, off_t at, struct err *e)
{
	const uint8_t *from = p;

	while (n) {
		ssize_t done = pwrite(fd, from, n, at);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return err_sys(e, errno, "write");
		from += done;
		at += done;
		n -= (size_t)done;
	}
	return 0;
}

static ssize_t read_some(const struct op *op, int fd, void *p, size_t n, struct err *e)
{
	for (;;) {
		ssize_t got;

		if (op_wait_fd(op, fd, POLLIN, e) < 0)
			return -1;
		got = read(fd, p, n);
		if (got >= 0)
			return got;
		if (errno == ECONNRESET)
			return 0;
		if (!would_block(errno))
			return err_sys(e, errno, "read");
	}
}

int io_read_exact(const struct op *op, int fd, void *p, size_t n, struct err *e)
{
	uint8_t *at = p;

	while (n) {
		ssize_t got = read_some(op, fd, at, n, e);

		if (got < 0)
			return -1;
		if (got == 0)
			return err_set(e, ERR_UNAVAILABLE, "connection closed");
		at += got;
		n -= (size_t)got;
	}
	return 0;
}

ssize_t io_fill(const struct op *op, struct buf *b, int fd, size_t max, struct err *e)
{
	uint8_t *room = buf_room(b, max);
	ssize_t got;

	if (!room)
		return err_oom(e);
	got = read_some(op, fd, room, max, e);
	if (got > 0)
		buf_grew(b, (size_t)got);
	return got;
}

ssize_t io_fill_now(struct buf *b, int fd, size_t max, struct err *e)
{
	uint8_t *room = buf_room(b, max);
	ssize_t got;

	if (!room)
		return err_oom(e);
	got = read(fd, room, max);
	if (got < 0 && errno == ECONNRESET)
		return 0;
	if (got < 0)
		return err_sys(e, errno == EINTR ? EAGAIN : errno, "read");
	buf_grew(b, (size_t)got);
	return got;
}

int file_read(const char *path, size_t max, char **ret, size_t *ret_len, struct err *e)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	auto_buf struct buf b = {0};
	char *s;

	if (fd < 0)
		return err_sys(e, errno, "%s", path);
	for (;;) {
		uint8_t *room = buf_room(&b, 16384);
		ssize_t got;

		if (!room)
			return err_oom(e);
		got = read(fd, room, 16384);
		if (got < 0)
			return err_sys(e, errno, "%s", path);
		if (got == 0)
			break;
		buf_grew(&b, (size_t)got);
		if (b.len > max)
			return err_set(e, ERR_LIMIT, "%s is larger than %zu bytes", path, max);
	}
	if (ret_len)
		*ret_len = b.len;
	s = buf_take_str(&b);
	if (!s)
		return err_oom(e);
	*ret = s;
	return 0;
}

int file_read_all(int fd, size_t max, struct buf *ret, struct err *e)
{
	struct stat st;
	off_t at = 0;

	if (fstat(fd, &st) < 0)
		return err_sys(e, errno, "read a file");
	if ((uintmax_t)st.st_size > max)
		return err_set(e, ERR_LIMIT, "more than %zu bytes", max);
	while (at < st.st_size) {
		size_t want = (size_t)(st.st_size - at);
		uint8_t *room = buf_room(ret, want);
		ssize_t n = room ? pread(fd, room, want, at) : -1;

		if (!room)
			return err_oom(e);
		if (n < 0)
			return err_sys(e, errno, "read a file");
		if (n == 0)
			break;
		buf_grew(ret, (size_t)n);
		at += n;
	}
	return 0;
}

#define TEMPORARY ".tmp-" /* and what mkostemp puts in place of six letters */

void file_write_atomic_sweep(const char *path)
{
	auto_dir DIR *dir = opendir(path);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		const char *end = strrchr(entry->d_name, '.');

		if (end && str_starts(end, TEMPORARY) && strlen(end) == strlen(TEMPORARY) + 6)
			unlinkat(dirfd(dir), entry->d_name, 0);
	}
}

int file_write_atomic(const char *path, const void *p, size_t n, mode_t mode, struct err *e)
{
	const uint8_t *at = p;
	auto_free char *tmp = NULL;
	int fd;

	if (str_printf(&tmp, e, "%s" TEMPORARY "XXXXXX", path) < 0)
		return -1;
	fd = mkostemp(tmp, O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "%s", tmp);
	while (n) {
		ssize_t done = write(fd, at, n);

		if (done < 0)
			goto fail;
		at += done;
		n -= (size_t)done;
	}
	if (fchmod(fd, mode) < 0 || fsync(fd) < 0 || rename(tmp, path) < 0)
		goto fail;
	close(fd);
	return 0;
fail:
	err_sys(e, errno, "%s", path);
	unlink(tmp);
	close(fd);
	return -1;
}

int file_in_memory(const char *name, const void *p, size_t n, int *ret_fd, struct err *e)
{
	auto_fd int fd = memfd_create(name, MFD_CLOEXEC);

	if (fd < 0)
		return err_sys(e, errno, "memfd");
	if (file_write_at(fd, p, n, 0, e) < 0)
		return -1;
	*ret_fd = take_fd(&fd);
	return 0;
}

char *file_tail(const char *path, size_t max)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	char *s = malloc(max + 1);
	ssize_t got = 0;

	if (!s)
		return NULL;
	if (fd >= 0 && fstat(fd, &st) == 0)
		got = pread(fd, s, max, st.st_size > (off_t)max ? st.st_size - (off_t)max : 0);
	s[got > 0 ? got : 0] = 0;
	return s;
}

int dir_make(const char *path, mode_t mode, struct err *e)
{
	auto_free char *copy = NULL;
	struct stat st;

	if (str_dup(path, &copy, e) < 0)
		return -1;
	for (char *slash = copy; (slash = strchr(slash, '/')); slash++) {
		if (slash == copy)
			continue; /* "/" exists */
		*slash = 0;
		if (mkdir(copy, mode) < 0 && errno != EEXIST)
			return err_sys(e, errno, "mkdir %s", copy);
		*slash = '/';
	}
	if (mkdir(copy, mode) == 0)
		return 0;
	if (errno != EEXIST || stat(copy, &st) < 0)
		return err_sys(e, errno, "mkdir %s", copy);
	return S_ISDIR(st.st_mode) ? 0 : err_sys(e, ENOTDIR, "%s", copy);
}

/* Removes a name that is not a directory. Makes dir_fd writable first if its mode forbids it to us,
 * the owner. */
static int remove_name(int dir_fd, const char *name)
{
	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EACCES || fchmod(dir_fd, 0700) < 0)
		return -1;
	return unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT ? 0 : -1;
}

/* What is deeper than that comes up before it is removed: others may have made a directory of any
 * depth, and a thread's stack and the number of open files are small. */
enum { REMOVE_DEPTH = 64 };

struct removal {
	int top; /* the directory that is to go */
	bool lifted;
	struct err *e;
};

static int open_sub(int dir_fd, const char *name)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int sub = openat(dir_fd, name, flags);

	if (sub < 0 && errno == EACCES && fchmodat(dir_fd, name, 0700, 0) == 0)
		sub = openat(dir_fd, name, flags);
	return sub;
}

/* Moves a directory to the top, under a name that nothing else has. */
static int lift(struct removal *r, int dir_fd, const char *name)
{
	unsigned long long number;
	char to[32];

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return err_sys(r->e, errno, "getrandom");
	snprintf(to, sizeof(to), "deep-%016llx", number);
	r->lifted = true;
	if (renameat(dir_fd, name, r->top, to) == 0 || errno == ENOENT)
		return 0;
	/* Both may forbid it to us, the owner. */
	if (errno == EACCES && fchmod(dir_fd, 0700) == 0 && fchmodat(dir_fd, name, 0700, 0) == 0 &&
		renameat(dir_fd, name, r->top, to) == 0)
		return 0;
	return err_sys(r->e, errno, "move %s", name);
}

/* Empties the directory that dir_fd refers to, and closes dir_fd. Another process may be doing the
 * same. */
static int empty_dir(struct removal *r, int dir_fd, unsigned depth)
{
	auto_dir DIR *d = fdopendir(dir_fd);
	struct dirent *ent;

	if (!d) {
		close(dir_fd);
		return err_sys(r->e, errno, "opendir");
	}
	while ((ent = readdir(d))) {
		int sub;

		if (strcmp(ent->d_name, ".") == 0 || strcmp(ent->d_name, "..") == 0)
			continue;
		if (remove_name(dir_fd, ent->d_name) == 0)
			continue;
		if (errno != EISDIR && errno != EPERM)
			return err_sys(r->e, errno, "remove %s", ent->d_name);
		if (depth == REMOVE_DEPTH) {
			if (lift(r, dir_fd, ent->d_name) < 0)
				return -1;
			continue;
		}
		sub = open_sub(dir_fd, ent->d_name);
		if (sub < 0 && errno == ENOENT)
			continue;
		if (sub < 0)
			return err_sys(r->e, errno, "open %s", ent->d_name);
		if (empty_dir(r, sub, depth + 1) < 0)
			return err_wrap(r->e, "%s", ent->d_name);
		if (unlinkat(dir_fd, ent->d_name, AT_REMOVEDIR) < 0 && errno != ENOENT)
			return err_sys(r->e, errno, "rmdir %s", ent->d_name);
	}
	return 0;
}

int dir_remove(const char *path, struct err *e)
{
	for (;;) {
		auto_fd int top = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		struct removal r = {.top = top, .e = e};
		int fd;

		if (top < 0 && errno == ENOENT)
			return 0;
		if (top < 0 || (fd = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
			return err_sys(e, errno, "%s", path);
		if (empty_dir(&r, fd, 0) < 0)
			return err_wrap(e, "%s", path);
		if (rmdir(path) == 0 || errno == ENOENT)
			return 0;
		if (errno != ENOTEMPTY || !r.lifted)
			return err_sys(e, errno, "rmdir %s", path);
	}
}

bool path_exists(const char *path)
{
	return access(path, F_OK) == 0;
}

uint64_t dir_bytes(const char *path)
{
	auto_dir DIR *d = opendir(path);
	struct dirent *ent;
	uint64_t sum = 0;
	struct stat st;

	while (d && (ent = readdir(d)))
		if (fstatat(dirfd(d), ent->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			S_ISREG(st.st_mode))
			sum += (uint64_t)st.st_blocks * 512;
	return sum;
}
