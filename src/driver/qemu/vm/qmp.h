/*
 * qmp.h - QEMU's monitor, at the other end of a socket. Any thread may call qmp_call; one thread,
 * the VM's monitor, reads the socket. QEMU has been close to a hostile guest: what it says is
 * bounded and checked, too.
 */
#pragma once

#include <jansson.h>

#include "util/buf.h"
#include "util/thread/op.h"

struct qmp;

/* fd is non-blocking and stays the caller's. on_event runs on the thread that reads. */
int qmp_new(int fd, void (*on_event)(void *arg, const char *name, json_t *data), void *arg,
	struct qmp **ret, struct err *e);
void qmp_free(struct qmp *q); /* NULL is fine; nobody may be in qmp_call */

/* Called by the thread that reads when the socket is readable. -1: QEMU has closed it or talks
 * nonsense; nothing more will come. */
int qmp_readable(struct qmp *q, struct err *e);
/* All calls fail with this error, those that wait and those to come. */
void qmp_fail(struct qmp *q, const struct err *why);

/* args (may be NULL) becomes the call's. pass_fd >= 0 is sent along. ret may be NULL. An error that
 * QEMU reports is ERR_BACKEND with its words. */
int qmp_call(struct qmp *q, const struct op *op, const char *command, json_t *args, int pass_fd,
	json_t **ret, struct err *e);

/* Finds the first line of `in`, without its end. Returns how many bytes it takes up; 0: the line is
 * not whole yet. Pure. */
size_t qmp_next_line(struct bytes in, struct bytes *ret_line);
