#include "web/address.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/str.h"
#include "util/system/io.h"

#define LOOK_AGAIN 0.02

/* Reads what is in it: a whole line, or nothing yet. */
static bool read_address(int fd, char ret[ADDRESS_MAX])
{
	ssize_t n = pread(fd, ret, ADDRESS_MAX - 1, 0);

	if (n <= 1 || ret[n - 1] != '\n')
		return false;
	ret[n - 1] = 0;
	return str_starts(ret, "http://");
}

int address_take(const struct op *op, const struct paths *paths, bool look_only, int *ret_fd,
	char ret[ADDRESS_MAX], struct err *e)
{
	auto_free char *path = NULL;
	auto_fd int fd = -1;

	if (str_printf(&path, e, "%s/web.address", paths->state) < 0)
		return -1;
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | (look_only ? 0 : O_CREAT), 0600);
	if (fd < 0 && errno == ENOENT)
		return 1;
	/* It may be there from another time, with other rights. */
	if (fd < 0 || fchmod(fd, 0600) < 0)
		return err_sys(e, errno, "%s", path);
	while (flock(fd, (look_only ? LOCK_SH : LOCK_EX) | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_sys(e, errno, "%s", path);
		if (read_address(fd, ret))
			return 0;
		if (op_pause(op, LOOK_AGAIN, e) < 0)
			return err_wrap(e, "another console is starting");
	}
	if (!look_only && ftruncate(fd, 0) < 0)
		return err_sys(e, errno, "%s", path);
	*ret_fd = take_fd(&fd);
	return 1;
}

int address_note(int fd, const char *address, struct err *e)
{
	auto_free char *line = NULL;

	if (str_printf(&line, e, "%s\n", address) < 0)
		return -1;
	return file_write_at(fd, line, strlen(line), 0, e);
}

void address_leave(int fd)
{
	if (ftruncate(fd, 0) < 0)
		return; /* without the lock it means nothing */
	close(fd);
}
