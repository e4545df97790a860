#include "moat-guest/common/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "wire/ascii.h"
#include "util/auto.h"

enum { OLD_S = 3600, NAME_BYTES = 32 };

static int spool_fd = -1;
static char spool_name[SPOOL_PATH_MAX];

int spool_open(void)
{
	char path[SPOOL_PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - sizeof("moat-spool"));
	struct stat st;
	char *slash;
	int fd;

	if (spool_fd >= 0)
		return 0;
	if (n <= 0)
		return n < 0 ? errno : ENOENT;
	path[n] = 0;
	slash = strrchr(path, '/');
	if (!slash)
		return ENOENT;
	memcpy(slash + 1, "moat-spool", sizeof("moat-spool"));
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return errno;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno;
	/* It may be below /tmp, where another user could have made it first. */
	if (fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 022)) {
		close(fd);
		return EPERM;
	}
	memcpy(spool_name, path, sizeof(path));
	spool_fd = fd;
	return 0;
}

int spool_dir(void)
{
	return spool_fd;
}

const char *spool_path(void)
{
	return spool_name;
}

void spool_begin(struct spool_writer *w, int dir, const char *name)
{
	w->dir = dir;
	w->fd = -1;
	w->name = name;
	w->parts = w->crc = 0;
	w->length = 0;
	w->held = w->in_part = 0;
}

static int open_part(struct spool_writer *w)
{
	char name[NAME_BYTES];

	snprintf(name, sizeof(name), "%s%s%u", w->name, *w->name ? "." : "", w->parts);
	w->fd = openat(w->dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (w->fd < 0)
		return errno;
	w->parts++;
	w->in_part = 0;
	return 0;
}

static int write_all(int fd, const uint8_t *p, size_t n)
{
	while (n) {
		ssize_t done = write(fd, p, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return done < 0 ? errno : EIO;
		p += done;
		n -= (size_t)done;
	}
	return 0;
}

static int close_part(struct spool_writer *w)
{
	int fd = w->fd;

	w->fd = -1;
	return fd >= 0 && close(fd) < 0 && errno != EINTR ? errno : 0;
}

static int flush_chunk(struct spool_writer *w)
{
	int error = w->fd < 0 ? open_part(w) : 0;

	if (error)
		return error;
	error = write_all(w->fd, w->chunk, w->held);
	w->in_part += w->held;
	w->held = 0;
	if (!error && w->in_part >= ASCII_PART)
		error = close_part(w);
	return error;
}

int spool_add(struct spool_writer *w, const void *p, size_t n)
{
	const uint8_t *at = p;

	w->crc = ascii_crc(w->crc, p, n);
	w->length += n;
	while (n) {
		size_t room = sizeof(w->chunk) - w->held, take = n < room ? n : room;
		int error = 0;

		memcpy(w->chunk + w->held, at, take);
		w->held += take;
		at += take;
		n -= take;
		if (w->held == sizeof(w->chunk))
			error = flush_chunk(w);
		if (error)
			return error;
	}
	return 0;
}

int spool_end(struct spool_writer *w)
{
	int error = w->held ? flush_chunk(w) : 0, late = close_part(w);

	return error ? error : late;
}

void spool_drop(struct spool_writer *w)
{
	close_part(w);
}

static bool in_use(int dir)
{
	auto_fd int lock = openat(dir, "lock", O_RDONLY | O_CLOEXEC);

	return lock >= 0 && flock(lock, LOCK_SH | LOCK_NB) < 0;
}

static void remove_files(int fd)
{
	auto_dir DIR *dir = fdopendir(fd);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			unlinkat(dirfd(dir), entry->d_name, 0);
	if (!dir)
		close(fd);
}

static void forget(const char *name)
{
	int fd = openat(spool_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0) {
		unlinkat(spool_fd, name, 0);
		return;
	}
	if (in_use(fd)) {
		close(fd);
		return;
	}
	remove_files(fd);
	unlinkat(spool_fd, name, AT_REMOVEDIR);
}

void spool_forget(const char *id)
{
	char name[ASCII_ID_MAX + 16];

	if (spool_fd < 0 || !ascii_is_id(id))
		return;
	forget(id);
	for (unsigned i = 0; i < UINT16_MAX; i++) {
		snprintf(name, sizeof(name), "%s.%u", id, i);
		if (unlinkat(spool_fd, name, 0) < 0)
			return;
	}
}

void spool_sweep(void)
{
	int fd = openat(spool_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_dir DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	time_t now = time(NULL);
	struct dirent *entry;
	struct stat st;

	while (dir && (entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
			fstatat(spool_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			(st.st_mtime < now - OLD_S || st.st_mtime > now + OLD_S))
			forget(entry->d_name);
}
