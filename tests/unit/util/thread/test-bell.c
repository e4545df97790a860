/* A bell rings for all who listen, once until each has heard it. */
#include "util/thread/bell.h"

#include <poll.h>

#include "tap.h"
#include "util/auto.h"

static bool rang(struct bell_listener *l)
{
	struct pollfd fd = {.fd = l->fd, .events = POLLIN};
	bool it = poll(&fd, 1, 0) == 1;

	bell_heard(l);
	return it;
}

int main(void)
{
	struct bell_listener a, b;
	struct bell bell;
	struct err e;

	bell_init(&bell);
	bell_ring(NULL);
	bell_ring(&bell);
	OK(bell_listen(&bell, &a, &e) == 0 && bell_listen(&bell, &b, &e) == 0);
	tap_ok(!rang(&a), "a ring before somebody listens is not heard");
	bell_ring(&bell);
	bell_ring(&bell);
	tap_ok(rang(&a) && rang(&b), "all hear it");
	tap_ok(!rang(&a) && !rang(&b), "several rings are heard once");
	bell_leave(&bell, &b);
	bell_ring(&bell);
	tap_ok(rang(&a), "others go on listening");
	bell_leave(&bell, &a);
	bell_ring(&bell);
	bell_done(&bell);
	return tap_done();
}
