/*
 * wire-ops.h - operations of a guest (guest.h) as messages to the runner, and the runner's messages
 * as their results. A line carries them, and so do calls of the guest agent. Pure; any thread.
 */
#pragma once

#include "guestlink/guest.h"
#include "wire/wire.h"

/* The EXEC message, but for its id, and its body. */
int wire_ask_exec(
	const struct guest_exec *req, struct wire_msg *ret, struct buf *strings, struct err *e);
/* The body of a request about a path. target: where a symlink is to point, otherwise NULL. */
int wire_ask_path(
	const struct guest_path *at, const char *target, struct buf *strings, struct err *e);

/* What an EXIT message says of the command. text: its body, escaped. */
void wire_told_exit(const struct wire_msg *msg, const char *text, struct guest_exit *ret);

/* Reads the entries of a directory out of the data that LIST brings, in any pieces. */
struct wire_lister {
	struct buf rest; /* the beginning of an entry whose end has not come yet */
	int (*each)(void *arg, const struct guest_entry *entry, struct err *e);
	void *arg;
};
/* Calls each() for every whole entry. 1: the guest sent an entry over the limits. */
int wire_told_entries(struct wire_lister *lister, struct bytes data, struct err *e);
