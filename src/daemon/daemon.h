/*
 * daemon.h - the daemon as a whole: what its parts share, its start and its end.
 *
 * How it works. The main thread accepts connections and waits for signals. Each connection has a
 * thread (session.h) that reads frames; each request has a thread (request.h) that does the work in
 * straight-line code. Sandboxes are in the registry. Locks are held over memory only, but for
 * two that ARCHITECTURE.md names, and nest as util/thread/lock.h says.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/admission.h"
#include "daemon/config.h"
#include "daemon/registry/registry.h"
#include "driver/driver.h"
#include "util/system/paths.h"
#include "util/thread/turn.h"
#include "util/thread/lock.h"

struct daemon_options {
	int ready_fd; /* "ready\n" is written here when the socket answers; -1: nobody wants it */
	bool leave_when_idle; /* end after config.idle_exit seconds without clients and sandboxes */
	bool any_config; /* with a wrong configuration file, serve those who ask what is wrong */
};

/* Runs until a signal, a shutdown request or idleness ends it. */
int daemon_main(const struct daemon_options *opts, struct err *e);

struct figures {
	struct turn turn; /* guards the rest: one thread looks */
	json_t *last;     /* NULL: nobody has looked yet */
	int64_t at_ns;
};

struct daemon {
	struct paths paths;
	struct config config;
	struct err config_wrong; /* kind 0: nothing; else config has the defaults, and few requests
				    are served */
	struct driver_env env;
	char *recipes; /* the directory of image recipes */
	struct store *store;
	struct templates *templates; /* NULL: the configuration wants none */
	struct journal *journal;
	struct driver *drivers[SPEC_DRIVERS]; /* NULL: this build has none */
	struct registry *registry;
	struct admission *admission;
	struct figures figures;
	struct turn reclaiming; /* one thread at a time reclaims */
	int64_t started_ns;
	int stop_fd; /* eventfd: readable when the daemon is to end */

	struct lock mu;
	unsigned sessions, requests;  /* running at the moment */
	unsigned spare_sessions;      /* how many of the sessions are beyond the limit */
	int64_t idle_since_ns;        /* when the last session ended */
	struct session *session_list; /* all sessions, to be cancelled at the end */
	json_t *reclaimed;  /* lines about what was reclaimed at the start, for the first gc */
	bool reclaims_late; /* since the start, what takes long to reclaim is reclaimed */
};

/* The driver of that name. ERR_UNSUPPORTED: this build has none. Any thread. */
int daemon_driver(struct daemon *d, const char *name, struct driver **ret, struct err *e);
/* Asks the main thread to end the daemon. Any thread. */
void daemon_stop(struct daemon *d);
