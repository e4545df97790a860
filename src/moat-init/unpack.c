/*
 * unpack.c - files of a spec, as a cpio archive from the host: directories, files and links, with
 * owners and modes. They land in the running system, before its service starts.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "moat-init/common/files.h"
#include "moat-init/ctl.h"
#include "util/auto.h"

/* An entry's head: a magic and 13 numbers of 8 hex digits. */
enum { HEAD = 110, NUMBER = 8, PATH_BYTES = 4096 };
enum { MODE = 1, UID = 2, GID = 3, SIZE = 6, NAME_SIZE = 11, NUMBERS = 13 };
#define MAGIC   "070701"
#define TRAILER "TRAILER!!!"

static int fail(const char *what, int error)
{
	fprintf(stderr, "%s: %s\n", what, strerror(error));
	return 1;
}

static bool take(void *out, size_t n)
{
	return fread(out, 1, n, stdin) == n;
}

static bool skip_padding(size_t n)
{
	char none[4];

	return take(none, (4 - n % 4) % 4);
}

static bool read_numbers(const char *head, uint32_t number[NUMBERS])
{
	char digits[NUMBER + 1] = "", *end;

	for (int i = 0; i < NUMBERS; i++) {
		memcpy(digits, head + strlen(MAGIC) + i * NUMBER, NUMBER);
		number[i] = (uint32_t)strtoul(digits, &end, 16);
		if (*end)
			return false;
	}
	return true;
}

static int write_file(const char *path, mode_t mode, size_t size)
{
	auto_fd int fd = -1;
	char piece[16384];

	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode & 07777);
	if (fd < 0)
		return errno;
	for (size_t left = size, n; left; left -= n) {
		n = left < sizeof(piece) ? left : sizeof(piece);
		if (!take(piece, n))
			return EIO;
		if (write(fd, piece, n) != (ssize_t)n)
			return errno ? errno : ENOSPC;
	}
	return skip_padding(size) ? 0 : EIO;
}

static int make_link(const char *path, size_t size)
{
	char target[PATH_BYTES];

	if (size >= sizeof(target))
		return ENAMETOOLONG;
	if (!take(target, size) || !skip_padding(size))
		return EIO;
	target[size] = 0;
	unlink(path);
	return symlink(target, path) < 0 ? errno : 0;
}

static int make_dir(const char *path)
{
	struct stat st;

	if (mkdir(path, 0755) == 0)
		return 0;
	return errno == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? 0 : errno;
}

static int make_parent(const char *path)
{
	char dir[PATH_BYTES];
	char *slash;

	snprintf(dir, sizeof(dir), "%s", path);
	slash = strrchr(dir, '/');
	if (slash == dir)
		return 0;
	*slash = 0;
	return make_dirs(dir);
}

static int make_entry(const char *path, const uint32_t number[NUMBERS])
{
	mode_t mode = number[MODE];
	int error = make_parent(path);

	if (error)
		return error;
	if (S_ISDIR(mode))
		error = make_dir(path);
	else if (S_ISLNK(mode))
		error = make_link(path, number[SIZE]);
	else
		error = write_file(path, mode, number[SIZE]);
	if (!error && lchown(path, number[UID], number[GID]) < 0)
		error = errno;
	/* After the owner, which takes setuid bits away. */
	if (!error && !S_ISLNK(mode) && chmod(path, mode & 07777) < 0)
		error = errno;
	return error;
}

int unpack(void)
{
	char head[HEAD], path[PATH_BYTES] = "/";

	for (;;) {
		uint32_t number[NUMBERS];
		int error;

		if (!take(head, HEAD) || memcmp(head, MAGIC, strlen(MAGIC)) != 0 ||
			!read_numbers(head, number) || number[NAME_SIZE] < 2 ||
			number[NAME_SIZE] >= sizeof(path) - 1 ||
			!take(path + 1, number[NAME_SIZE]) ||
			!skip_padding(HEAD + number[NAME_SIZE]))
			return fail("the files", EIO);
		path[number[NAME_SIZE]] = 0;
		if (strcmp(path + 1, TRAILER) == 0)
			return 0;
		error = make_entry(path, number);
		if (error)
			return fail(path, error);
	}
}
