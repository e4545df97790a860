/* start.h - connects to the daemon's socket, and starts a daemon if there is none. */
#pragma once

#include <stdbool.h>

#include "util/thread/op.h"
#include "util/system/paths.h"

/* Returns a connected, non-blocking socket: of this login's rendezvous, or of the one that the
 * daemon of the state directory has noted. ERR_UNAVAILABLE: no daemon is running. Refuses a socket
 * that another user's process serves. */
int daemon_connect(const struct op *op, const struct paths *paths, int *ret_fd, struct err *e);

/*
 * Starts a daemon, and returns when one answers. Many processes may call this at once: each takes a
 * lock and looks for a daemon again before it starts one. The daemon outlives this process, has no
 * terminal and none of our files, and logs to daemon.log in the state directory.
 * any_config: one that says what is wrong with its configuration file starts all the same.
 */
int daemon_start(const struct op *op, const struct paths *paths, bool any_config, struct err *e);

/* `moat serve --ready-fd` writes this when it serves; any other text says why it does not. */
#define DAEMON_READY "ready\n"
