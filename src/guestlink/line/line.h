/*
 * line.h - a line: the link into a guest through our runner. It is frames (wire.h) on a stream
 * socket, which leads to a virtio-serial port, say. Any number of operations share one line, each
 * with a channel (channel.h).
 *
 * The guest is hostile. Whatever breaks the protocol fails this line and all its operations with
 * ERR_UNAVAILABLE, for good. Its owner frees it, and may open another.
 *
 * Thread contract: any thread, but for open and free, which are the owner's.
 */
#pragma once

#include <stdbool.h>

#include "guestlink/guest.h"

/*
 * Greets the runner at the other end of fd, a connected stream socket, and waits for its answer.
 * Takes fd on success. fd may be a copy: when the line has failed and was let go, another line can
 * be opened on the same connection. ERR_UNSUPPORTED: a runner is there, but it speaks another
 * version.
 *
 * patience: the line fails when an operation waits and nothing has come from the runner for so many
 * seconds, though it was asked for a sign of life. 0: it waits for ever.
 */
int line_open(const struct op *op, int fd, double patience, struct guest **ret, struct err *e);
void line_free(struct guest *g); /* its part of guest_free */
/* Its part of guest_let_go. */
void line_let_go(struct guest *g, struct buf *rest);
/*
 * For a driver that learns of the end of the VM, or that the guest closed the port: every
 * operation, now and later, fails with ERR_UNAVAILABLE and these words. Only the first reason
 * counts.
 */
void line_fail(struct guest *g, const char *why);
bool line_failed(const struct guest *g);

/*
 * For a slow line: a captured command that writes much leaves its output in files in the guest,
 * where fetch() gets it by other means (WIRE_EXEC_SPILL). where: EXIT's body, escaped; the guest
 * can say anything there, so it must be checked. max: bytes of each stream. Set before the line is
 * used.
 */
struct line_spill {
	int (*fetch)(void *arg, const struct op *op, const char *where, size_t max,
		const struct guest_io *io, struct err *e);
	void *arg;
};
void line_set_spill(struct guest *g, struct line_spill spill);
const struct line_spill *line_spill_of(struct guest *g); /* NULL: none */

/* For a line whose other end can vanish unnoticed: asks the runner to answer. */
void line_ask_for_sign(struct guest *g);
/* Its part of guest_stand_still. */
void line_stand_still(struct guest *g, bool still);
/* The seconds since anything came from the runner. */
double line_silence(struct guest *g);
