/*
 * line.h - the way into a guest through our runner: frames (wire.h) on the stream socket behind a
 * virtio-serial port. Any number of operations share one line; a small thread of the line, the
 * pump, reads what the guest sends and lays it at the channel (channel.h) of the operation it is
 * for.
 *
 * The guest is hostile. Whatever breaks the protocol fails this line and all its operations with
 * ERR_UNAVAILABLE, for good; the owner frees it and opens another, or none.
 */
#pragma once

#include <stdbool.h>

#include "guest/guest.h"

/*
 * Greets the runner at the other end of fd, a connected stream socket, and waits for its answer.
 * Takes fd on success. It may be a dup: when the line has failed and is freed, another line can be
 * opened on the same connection. ERR_UNSUPPORTED: a runner is there, but it speaks another version.
 */
int line_open(const struct op *op, int fd, struct guest **ret, struct err *e);
/*
 * For the driver that learns of the end of the VM, or that the guest closed the port: every
 * operation, now and later, fails with ERR_UNAVAILABLE and these words. Any thread, any number of
 * times; the first reason stays.
 */
void line_fail(struct guest *g, const char *why);
bool line_failed(struct guest *g);
/* Whether g was made by line_open. */
bool guest_is_line(const struct guest *g);

/*
 * For a slow line: much output of a command that is captured stays in files of the guest, and is
 * fetched by other means (WIRE_EXEC_SPILL). where: EXIT's body, escaped; whatever the guest says
 * there must be checked. max: bytes of each stream. Set before the line is first used.
 */
struct line_spill {
	int (*fetch)(void *arg, const struct op *op, const char *where, size_t max,
		const struct guest_io *io, struct err *e);
	void *arg;
};
void line_set_spill(struct guest *g, struct line_spill spill);
const struct line_spill *line_spill_of(struct guest *g); /* NULL: none */

/*
 * For a line whose other end can vanish without a sign: asks the runner for one, which counts as
 * news. line_silence: for how long nothing has come, in seconds.
 */
void line_ask_for_sign(struct guest *g);
double line_silence(struct guest *g);
