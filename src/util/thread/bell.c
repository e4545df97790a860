#include "util/thread/bell.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

void bell_init(struct bell *b)
{
	*b = (struct bell){0};
	lock_init(&b->mu, "bell.mu", LOCK_LEAF);
}

void bell_done(struct bell *b)
{
	lock_done(&b->mu);
}

void bell_ring(struct bell *b)
{
	const uint64_t one = 1;

	if (!b)
		return;
	auto_unlock struct lock *held = lock_take(&b->mu);
	for (struct bell_listener *l = b->first; l; l = l->next)
		if (write(l->fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
			abort(); /* an eventfd: it fails only where it is full of rings */
}

int bell_listen(struct bell *b, struct bell_listener *l, struct err *e)
{
	l->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->fd < 0)
		return err_sys(e, errno, "eventfd");
	auto_unlock struct lock *held = lock_take(&b->mu);
	l->next = b->first;
	b->first = l;
	return 0;
}

void bell_heard(struct bell_listener *l)
{
	uint64_t rings;

	(void)!read(l->fd, &rings, sizeof(rings)); /* it fails if there was none */
}

void bell_leave(struct bell *b, struct bell_listener *l)
{
	{
		auto_unlock struct lock *held = lock_take(&b->mu);
		for (struct bell_listener **at = &b->first; *at; at = &(*at)->next)
			if (*at == l) {
				*at = l->next;
				break;
			}
	}
	close(l->fd);
}
