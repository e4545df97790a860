/*
 * admission.h - lets sandboxes in as long as the host has memory for them. Any thread.
 *
 * A VM's memory is promised when its sandbox is let in, but taken from the host only as the guest
 * touches it. Free is therefore what the host calls available, less what was promised and not yet
 * touched, less what the configuration keeps for the host.
 */
#pragma once

#include <stdbool.h>

#include "util/thread/op.h"

struct admission;

int admission_new(unsigned keep_mb, struct admission **ret, struct err *e);
void admission_free(struct admission *a); /* NULL is fine */

enum admission_how {
	ADMISSION_TRY,
	ADMISSION_WAIT,
	ADMISSION_SPARE, /* like TRY, but no standby sandbox gives way */
};
/*
 * Promises mb of memory. If it does not fit: waits, or fails with ERR_BUSY and the figures. A
 * sandbox that could never fit is refused at once, and so is one for which no other sandbox of ours
 * could make room by ending.
 */
int admission_enter(struct admission *a, const struct op *op, unsigned mb, enum admission_how how,
	struct err *e);
/* Fails if so much could never fit on this host, whatever else is running. */
int admission_could_fit(struct admission *a, unsigned mb, struct err *e);
/* Before the first thread: give_way is called when memory is short, by the first in the queue.
 * True: it has freed some. */
void admission_on_shortage(struct admission *a, bool (*give_way)(void *arg), void *arg);
/* Gives a promise back. */
void admission_leave(struct admission *a, unsigned mb);

struct admission_figures {
	unsigned long long total_mb, available_mb, promised_mb;
};
void admission_figures(struct admission *a, struct admission_figures *ret);
