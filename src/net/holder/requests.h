/* requests.h - what the daemon requests of a holder. For the holder's main thread. */
#pragma once

#include "net/holder/state.h"

/* Answers one request. */
int holder_answer(
	struct holder *h, const char *op, json_t *args, json_t **ret, int *ret_fd, struct err *e);
/*
 * Connects to a forwarded port of a VM; for forwards_new, with the holder as arg. Moves the calling
 * thread, which belongs to this connection, into the sandbox's network namespace for good.
 */
int holder_connect(
	void *arg, const struct op *op, const struct forward *f, int *ret_fd, struct err *e);
