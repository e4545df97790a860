#include "store/hold.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "util/auto.h"
#include "util/str.h"

#define LOOK_AGAIN 0.01

enum hold hold_file(const char *path, enum hold_mode mode, int *ret_fd, struct err *e)
{
	auto_fd int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	struct stat held, named;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return HOLD_GONE;
	if (fd < 0)
		return (enum hold)err_sys(e, errno, "%s", path);
	if (flock(fd, (mode == HOLD_ALONE ? LOCK_EX : LOCK_SH) | LOCK_NB) < 0) {
		if (errno == EWOULDBLOCK)
			return HOLD_BUSY;
		return (enum hold)err_sys(e, errno, "lock %s", path);
	}
	if (fstat(fd, &held) < 0)
		return (enum hold)err_sys(e, errno, "%s", path);
	if (stat(path, &named) < 0 || named.st_ino != held.st_ino || named.st_dev != held.st_dev)
		return HOLD_GONE;
	*ret_fd = take_fd(&fd);
	return HOLD_OK;
}

enum hold hold_dir(const char *dir, enum hold_mode mode, int *ret_fd, struct err *e)
{
	auto_free char *path = NULL;

	if (str_printf(&path, e, "%s/lock", dir) < 0)
		return HOLD_FAILED;
	return hold_file(path, mode, ret_fd, e);
}

int hold_wait(const struct op *op, const char *dir, int *ret_fd, struct err *e)
{
	for (;;) {
		enum hold got = hold_dir(dir, HOLD_SHARED, ret_fd, e);

		if (got == HOLD_FAILED)
			return -1;
		if (got != HOLD_BUSY)
			return got == HOLD_OK;
		if (op_pause(op, LOOK_AGAIN, e) < 0)
			return err_wrap(e, "waiting for the removal of %s", dir);
	}
}
