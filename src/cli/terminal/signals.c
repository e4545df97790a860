#include "cli/terminal/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "cli/terminal/exit-code.h"
#include "util/auto.h"

static volatile sig_atomic_t seen;
static int stop_fd = -1, resize_fd = -1;
static volatile sig_atomic_t raw_fd = -1;
static struct termios cooked;

static void wake(int fd)
{
	static const unsigned long long one = 1;
	int saved = errno;

	if (write(fd, &one, sizeof(one)) < 0)
		errno = saved; /* the eventfd is full, so it is readable already */
}

static void on_stop(int sig)
{
	(void)sig;
	if (++seen > 1) {
		tty_restore();
		_exit(EXIT_INTERRUPTED);
	}
	wake(stop_fd);
}

static void on_resize(int sig)
{
	(void)sig;
	wake(resize_fd);
}

int signals_setup(struct err *e)
{
	static const int stops[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction act = {.sa_handler = on_stop}, old;

	if (stop_fd >= 0)
		return 0;
	stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	resize_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (stop_fd < 0 || resize_fd < 0)
		return err_sys(e, errno, "eventfd");
	for (unsigned i = 0; i < ARRAY_LEN(stops); i++) {
		if (sigaction(stops[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN)
			continue; /* ignored by nohup or by a script's background job: keep it so */
		sigaction(stops[i], &act, NULL);
	}
	act.sa_handler = on_resize;
	act.sa_flags = SA_RESTART;
	sigaction(SIGWINCH, &act, NULL);
	return 0;
}

unsigned signals_seen(void)
{
	return (unsigned)seen;
}

int signals_fd(void)
{
	return stop_fd;
}

int signals_resize_fd(void)
{
	return resize_fd;
}

void signals_take_resize(void)
{
	unsigned long long count;

	if (read(resize_fd, &count, sizeof(count)) < 0)
		return; /* ignored: the fd stays readable */
}

int tty_make_raw(int fd, struct err *e)
{
	struct termios raw;

	if (tcgetattr(fd, &cooked) < 0)
		return err_sys(e, errno, "terminal");
	raw = cooked;
	cfmakeraw(&raw);
	raw_fd = fd;
	atexit(tty_restore);
	if (tcsetattr(fd, TCSADRAIN, &raw) < 0)
		return err_sys(e, errno, "terminal");
	return 0;
}

void tty_restore(void)
{
	int fd = raw_fd;

	if (fd < 0)
		return;
	raw_fd = -1;
	tcsetattr(fd, TCSANOW, &cooked);
}

bool tty_size(unsigned *ret_rows, unsigned *ret_cols)
{
	static const int fds[] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};
	struct winsize ws;

	*ret_rows = 24;
	*ret_cols = 80;
	for (unsigned i = 0; i < ARRAY_LEN(fds); i++) {
		if (ioctl(fds[i], TIOCGWINSZ, &ws) == 0 && ws.ws_row && ws.ws_col) {
			*ret_rows = ws.ws_row;
			*ret_cols = ws.ws_col;
			return true;
		}
	}
	return false;
}
