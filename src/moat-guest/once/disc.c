#include "moat-guest/once/disc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "wire/ascii.h"
#include "moat-guest/once/once.h"
#include "moat-guest/common/spool.h"
#include "util/auto.h"
#include "wire/iso.h"
#include "wire/sha256.h"

enum {
	DRIVES = 16,
	PIECE = 256 * 1024,
	/* A drive needs a moment to see its new disc, and a guest that has just been started needs
	 * one to see its drive. The kernel looks only when the drive is opened: so open it now and
	 * then. */
	LOOKS = 50,
	PAUSE_MS = 100,
};

static int complain(const char *what, int error)
{
	fprintf(stderr, "moat-guest: %s: %s\n", what, strerror(error));
	return error == ENOSPC ? TAKE_FULL : ONCE_BAD;
}

static bool is_disc(int fd, const char *name)
{
	char descriptor[ISO_VOLUME_AT + ISO_VOLUME_MAX], volume[ISO_VOLUME_MAX + 1];

	if (pread(fd, descriptor, sizeof(descriptor), ISO_PVD) != (ssize_t)sizeof(descriptor) ||
		memcmp(descriptor, "\1CD001", 6) != 0)
		return false;
	snprintf(volume, sizeof(volume), "%-32s", name);
	return memcmp(descriptor + ISO_VOLUME_AT, volume, ISO_VOLUME_MAX) == 0;
}

/* Opening a drive makes the kernel check whether its disc was changed. Without udev nothing else
 * makes it check, so this looks again after a pause. */
static int find_disc(const char *name)
{
	struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};

	for (int look = 0; look < LOOKS; look++) {
		for (int i = 0; i < DRIVES; i++) {
			char path[24];
			auto_fd int fd = -1;

			snprintf(path, sizeof(path), "/dev/sr%d", i);
			fd = open(path, O_RDONLY | O_CLOEXEC);
			if (fd >= 0 && is_disc(fd, name))
				return take_fd(&fd);
		}
		nanosleep(&pause, NULL);
	}
	return -1;
}

static int copy(int from, int to, off_t at, size_t length, struct sha256 *sum)
{
	static char piece[PIECE];
	off_t in = ISO_HEAD;

	while (length) {
		ssize_t n = pread(from, piece, length < PIECE ? length : PIECE, in);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? errno : EIO;
		if (pwrite(to, piece, (size_t)n, at) != n)
			return errno ? errno : EIO;
		sha256_add(sum, piece, (size_t)n);
		in += n;
		at += n;
		length -= (size_t)n;
	}
	return 0;
}

static bool read_size(const char *text, unsigned long long *ret)
{
	char *end;

	errno = 0;
	*ret = strtoull(text, &end, 10);
	return !errno && end != text && !*end && *ret <= LONG_MAX / 2;
}

int take_main(int argc, char **argv)
{
	unsigned long long offset, length;
	char name[ASCII_ID_MAX + 4], hex[SHA256_HEX + 1];
	auto_fd int disc = -1, file = -1;
	struct sha256 sum;
	int error;

	if (argc != 7 || strlen(argv[2]) > ISO_VOLUME_MAX || !ascii_is_id(argv[3]) ||
		!read_size(argv[4], &offset) || !read_size(argv[5], &length))
		return complain("take", EINVAL);
	error = spool_open();
	if (error)
		return complain("spool", error);
	disc = find_disc(argv[2]);
	if (disc < 0) {
		fputs("moat-guest: no drive has the disc\n", stderr);
		return TAKE_NO_DISC;
	}
	snprintf(name, sizeof(name), "%s.0", argv[3]);
	file = openat(spool_dir(), name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	sha256_start(&sum);
	if (file < 0 || ftruncate(file, (off_t)offset) < 0)
		return complain(spool_path(), errno);
	errno = 0;
	error = copy(disc, file, (off_t)offset, (size_t)length, &sum);
	sha256_end(&sum, hex);
	if (!error && strcmp(hex, argv[6]) != 0)
		error = EILSEQ;
	if (error) /* do not leave a full disk behind */
		unlinkat(spool_dir(), name, 0);
	return error ? complain("disc", error) : 0;
}
