/* conn.h - sends and receives frames on a non-blocking socket to the daemon. Nothing here waits. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "util/buf.h"

struct conn {
	int fd;
	struct buf in, out;
	size_t taken; /* bytes of `in` that the last frame occupies */
	bool hung_up; /* the daemon has closed; what it sent before can still be read */
};

void conn_close(struct conn *c);
/* Queues one frame; takes j (NULL is out of memory). */
int conn_put(struct conn *c, json_t *j, struct bytes blob, struct err *e);
/* Sends what the socket takes. */
int conn_flush(struct conn *c, struct err *e);
/* Reads what there is. ERR_UNAVAILABLE: the daemon has closed. */
int conn_fill(struct conn *c, struct err *e);
/* Returns 1 and a frame, whose blob is valid until the next call; 0 if none is complete. */
int conn_next(struct conn *c, json_t **ret_head, struct bytes *ret_blob, struct err *e);
void conn_forget_input(struct conn *c);
