/* orders.h - what the runner tells a supervisor, with file descriptors; see supervise.h. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum order {
	ORDER_GET_READY = 1, /* to the supervisor, with the pipes for stdout and stderr */
	ORDER_START,         /* to the process that it has made, perhaps with an fd for stdin */
};

enum { ORDER_FDS_MAX = 2 };

/* Does not block. Negative ones are left out. 0 or an errno. */
int order_send(int socket, enum order order, const int *fds, size_t n);
/* Waits for one. Fds that did not come are -1; all are CLOEXEC. -1: there will be none, or another
 * has come. */
int order_receive(int socket, enum order order, int *ret_fds, size_t n);
