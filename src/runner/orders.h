/* orders.h - small numbers with file descriptors, for a supervisor and its processes; see
 * supervise.h. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { ORDER_FDS_MAX = 2 };

/* Does not block. 0 or an errno. */
int order_send(int socket, unsigned number, const int *fds, size_t n);
/* Waits for one with n fds, all CLOEXEC, and returns its number. -1: there will be none, or it has
 * other fds. */
int order_receive(int socket, int *ret_fds, size_t n);
