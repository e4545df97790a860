/*
 * admission.h - lets sandboxes in as long as the host has memory for them. Thread-safe.
 *
 * A VM's memory is promised when it is let in but taken from the host only as the guest touches it.
 * What is free is therefore what the host calls available, less what was promised and not yet
 * touched, less what the configuration keeps for the host.
 */
#pragma once

#include <stdbool.h>

#include "util/op.h"

struct admission;

int admission_new(unsigned keep_mb, struct admission **ret, struct err *e);
void admission_free(struct admission *a); /* NULL is fine */

enum admission_how {
	ADMISSION_TRY,
	ADMISSION_WAIT,
	ADMISSION_SPARE, /* like TRY, but nobody gives way for it */
};
/*
 * Promises mb of memory. If it does not fit: waits, one at a time, or fails with ERR_BUSY and the
 * figures. What could never fit, or when nothing of ours could be given back, is refused at once.
 */
int admission_enter(struct admission *a, const struct op *op, unsigned mb, enum admission_how how,
	struct err *e);
/* Before the first thread: called when memory is short, by the one who is next. True: somebody has
 * given some back. */
void admission_on_shortage(struct admission *a, bool (*give_way)(void *arg), void *arg);
void admission_leave(struct admission *a, unsigned mb);

struct admission_figures {
	unsigned long long total_mb, available_mb, promised_mb;
};
void admission_figures(struct admission *a, struct admission_figures *ret);
