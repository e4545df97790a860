/* msg.h - messages between the daemon and its helper processes, on a SOCK_SEQPACKET pair: JSON
 * objects, with at most one file descriptor each. Any thread; one at a time for a socket. */
#pragma once

#include "util/json.h"
#include "util/thread/op.h"

enum { MSG_SIZE_MAX = 64 * 1024 };

/* fd: sent along, and stays the caller's; -1: none. */
int msg_send(int sock, const json_t *msg, int fd, struct err *e);
/* Waits for a message. *ret_fd is -1 if it came without a file descriptor. ERR_UNAVAILABLE: the
 * peer has closed. */
int msg_recv(const struct op *op, int sock, json_t **ret, int *ret_fd, struct err *e);
