/* msg.h - messages between the daemon and a holder: JSON objects, with at most one file descriptor.
 */
#pragma once

#include "util/json.h"
#include "util/op.h"

/* fd -1: none. It stays the caller's. */
int net_msg_send(int sock, const json_t *msg, int fd, struct err *e);
/* Waits for one; *ret_fd is -1 if none came. The peer's end is ERR_UNAVAILABLE. */
int net_msg_recv(const struct op *op, int sock, json_t **ret, int *ret_fd, struct err *e);

/* A file in memory with this content, at its start; for what is too large for a message. */
int net_memfd(const char *name, const void *p, size_t n, int *ret, struct err *e);
/* Everything of such a file, at most max bytes. */
int net_memfd_read(int fd, size_t max, struct buf *ret, struct err *e);
