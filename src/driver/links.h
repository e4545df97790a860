/*
 * links.h - the links into one VM's guest: the one that operations share now, and those that have
 * failed but are still in use. A driver says how a link is opened; all else is here.
 *
 * Thread contract: take, give, lost and the questions on any thread; close and done by the VM's
 * owner, when nobody uses the guest any more.
 */
#pragma once

#include "guestlink/guest.h"
#include "util/thread/turn.h"
#include "util/thread/lock.h"

struct guest_links_ops {
	/* -1, with the reason, once the VM is dead: nothing is taken or opened then. */
	int (*alive)(void *arg, struct err *e);
	/* Called by one thread at a time. *ret_below: what the guest needs below it; NULL: nothing.
	 */
	int (*open)(void *arg, const struct op *op, struct guest **ret, void **ret_below,
		struct err *e);
	void (*close_below)(void *below); /* after the guest is freed; NULL: nothing is below */
};

struct guest_link;

struct guest_links {
	const struct guest_links_ops *ops;
	void *arg;
	struct turn opening; /* held by a thread that opens a link, or that keeps others from it */
	struct lock mu;
	struct guest_link *current; /* NULL: there is none, or it has failed */
	struct guest_link *all;     /* the current one and those still in use */
	unsigned leaving;           /* links that have left the list and are not free yet */
	struct buf unsent;          /* of the links that have let go, as guest_let_go */
};

void links_init(struct guest_links *links, const struct guest_links_ops *ops, void *arg);
/* Frees all links, even those in use. New ones can be opened after that. */
void links_close(struct guest_links *links);
void links_done(struct guest_links *links); /* calls links_close */

/* Takes the current link, or opens one. Given back with links_give. */
int links_take(struct guest_links *links, const struct op *op, struct guest **ret, struct err *e);
void links_give(struct guest_links *links, struct guest *g);
/* Gives up the current link if it is a line: what runs on it fails with these words, and the next
 * operation opens another. */
void links_lost(struct guest_links *links, const char *why);
/* links_lost in two steps, for a caller that learns the reason later: detach gives up the line,
 * fail tells why. NULL: there is no line. */
struct guest *links_detach(struct guest_links *links);
void links_fail(struct guest_links *links, struct guest *detached, const char *why);
/*
 * For open, before it greets a new runner on a connection that earlier links had: these fail with
 * these words, and when this returns none of them reads from the connection or writes to it. What
 * an old link would take or send would be missing, or alien, in the new one's conversation. rest:
 * as guest_let_go.
 */
int links_part(struct guest_links *links, const struct op *op, const char *why, struct buf *rest,
	struct err *e);
/* For a driver that stops a VM for a while: its guest may be silent meanwhile. */
void links_stand_still(struct guest_links *links, bool still);
/* What open put below a guest that was taken. */
void *links_below(struct guest_links *links, const struct guest *g);
/* How the current link works: "runner", "agent"; "": there is no link now. */
const char *links_name(struct guest_links *links);
bool links_is_runner(struct guest_links *links);
