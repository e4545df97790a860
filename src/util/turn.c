#include "util/turn.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

int turn_init(struct turn *t, struct err *e)
{
	t->fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
	return t->fd < 0 ? err_sys(e, errno, "eventfd") : 0;
}

void turn_done(struct turn *t)
{
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
}

int turn_take(struct turn *t, const struct op *op, struct err *e)
{
	uint64_t got;

	for (;;) {
		if (read(t->fd, &got, sizeof(got)) == (ssize_t)sizeof(got))
			return 0;
		if (errno != EAGAIN && errno != EINTR)
			return err_sys(e, errno, "turn");
		if (op_wait_fd(op, t->fd, POLLIN, e) < 0)
			return -1;
	}
}

void turn_give(struct turn *t)
{
	uint64_t one = 1;

	if (write(t->fd, &one, sizeof(one)) < 0)
		return; /* cannot happen: the counter is 0 */
}
