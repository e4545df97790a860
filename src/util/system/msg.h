/* msg.h - messages between the daemon and a process that helps it, on a SOCK_SEQPACKET pair: JSON
 * objects, with at most one file descriptor each. */
#pragma once

#include "util/json.h"
#include "util/op.h"

enum { MSG_SIZE_MAX = 64 * 1024 };

/* fd -1: none. It stays the caller's. */
int msg_send(int sock, const json_t *msg, int fd, struct err *e);
/* Waits for one; *ret_fd is -1 if none came. The peer's end is ERR_UNAVAILABLE. */
int msg_recv(const struct op *op, int sock, json_t **ret, int *ret_fd, struct err *e);
