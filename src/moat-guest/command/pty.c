#include "moat-guest/command/pty.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "util/auto.h"

#ifndef TIOCGPTPEER
#define TIOCGPTPEER 0x5441 /* Linux 4.13; elsewhere the path below serves */
#endif

static int open_slave(int master)
{
	int flags = O_RDWR | O_NOCTTY | O_CLOEXEC;
	int fd = ioctl(master, TIOCGPTPEER, flags);
	unsigned number;
	char path[32];

	if (fd >= 0)
		return fd;
	if (ioctl(master, TIOCGPTN, &number) < 0)
		return -1;
	snprintf(path, sizeof(path), "/dev/pts/%u", number);
	return open(path, flags);
}

int pty_open(uid_t uid, int *ret_master, int *ret_slave)
{
	auto_fd int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	int slave, unlock = 0;

	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return errno;
	slave = open_slave(master);
	if (slave < 0)
		return errno;
	/* So that the user can open it by its name, as after a login. Not vital. */
	if (uid != geteuid() && (fchown(slave, uid, (gid_t)-1) < 0 || fchmod(slave, 0620) < 0))
		errno = 0;
	*ret_master = take_fd(&master);
	*ret_slave = slave;
	return 0;
}

void pty_resize(int master, uint16_t rows, uint16_t cols)
{
	struct winsize size = {.ws_row = rows, .ws_col = cols};

	ioctl(master, TIOCSWINSZ, &size);
}

pid_t pty_foreground(int master)
{
	pid_t group = 0;

	return ioctl(master, TIOCGPGRP, &group) == 0 && group > 1 ? group : 0;
}

pid_t pty_session(int master)
{
	pid_t session = 0;

	return ioctl(master, TIOCGSID, &session) == 0 ? session : 0;
}

uint8_t pty_eof_char(int master)
{
	struct termios t;

	return tcgetattr(master, &t) == 0 && t.c_cc[VEOF] ? t.c_cc[VEOF] : 4;
}
