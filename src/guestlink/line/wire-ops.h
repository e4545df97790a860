/* wire-ops.h - operations of a guest (guest.h) as messages of the wire, whatever carries them.
 * Pure. */
#pragma once

#include "guest/guest.h"
#include "guest/wire.h"

/* The message, without id, and its body. */
int wire_ask_exec(
	const struct guest_exec *req, struct wire_msg *ret, struct buf *strings, struct err *e);
/* The body of a request about a path; target: of SYMLINK, otherwise NULL. */
int wire_ask_path(
	const struct guest_path *at, const char *target, struct buf *strings, struct err *e);

/* text: the body of EXIT, escaped. */
void wire_told_exit(const struct wire_msg *msg, const char *text, struct guest_exit *ret);

/* Entries of LIST as they come, in any pieces. */
struct wire_lister {
	struct buf rest; /* the beginning of an entry */
	int (*each)(void *arg, const struct guest_entry *entry, struct err *e);
	void *arg;
};
/* 1: an entry over the limits. */
int wire_told_entries(struct wire_lister *lister, struct bytes data, struct err *e);
