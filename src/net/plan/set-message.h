/*
 * set-message.h - a message to the kernel's nftables that adds addresses to a set, in place of a
 * text for `nft -f -`: guests cause additions as often as they like, and the thread that answers
 * them must not wait for a program each time. Pure.
 */
#pragma once

#include "util/buf.h"

enum {
	SET_MESSAGE_ADDRS = 1024, /* the most that a message adds */
	SET_MESSAGE_CHANGES = 3,  /* how many acknowledgements the kernel sends, if all goes well */
};

/* Adds all addresses or none, each for so many seconds from now, however long it was to stay in the
 * set before. No address may be there twice. */
int set_message(const char *set, const uint32_t *addrs, unsigned n, uint32_t seconds,
	struct buf *ret, struct err *e);
