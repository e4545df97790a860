/* start.h - finding the daemon's socket, and starting a daemon where there is none. */
#pragma once

#include "util/op.h"
#include "util/paths.h"

/* A connected, non-blocking socket. ERR_UNAVAILABLE: no daemon is running. Refuses a socket that
 * another user's process serves. */
int daemon_connect(const struct op *op, const struct paths *paths, int *ret_fd, struct err *e);

/*
 * Returns when a daemon answers. Any number of processes may do this at once: under a lock it looks
 * again before it starts one. The daemon outlives us, has no terminal and none of our files, and
 * logs to daemon.log in the state directory.
 */
int daemon_start(const struct op *op, const struct paths *paths, struct err *e);

/* What `moat serve --ready-fd` says when it serves; anything else on that pipe is why it does not.
 */
#define DAEMON_READY "ready\n"
