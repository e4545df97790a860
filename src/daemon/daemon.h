/*
 * daemon.h - the daemon as a whole: what its parts share, its start and its end.
 *
 * How it works. The main thread accepts connections and waits for signals. Each connection has a
 * thread (session.h) that reads frames; each request has a thread (request.h) that does the work in
 * straight-line code. Sandboxes are in the registry. Locks are leaves: no lock is ever held while
 * another is taken, or while anything is waited for.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/admission.h"
#include "daemon/config.h"
#include "daemon/registry.h"
#include "driver/driver.h"
#include "util/paths.h"
#include "util/turn.h"

struct daemon_options {
	int ready_fd; /* "ready\n" is written here when the socket answers; -1: nobody waits */
	bool leave_when_idle; /* end after config.idle_exit seconds without clients and sandboxes */
};

/* Runs until a signal, a shutdown request or idleness ends it. */
int daemon_main(const struct daemon_options *opts, struct err *e);

struct daemon {
	struct paths paths;
	struct config config;
	struct driver_env env;
	char *recipes; /* the directory of image recipes */
	struct store *store;
	struct templates *templates; /* NULL: the configuration wants none */
	struct journal *journal;
	struct driver *drivers[SPEC_DRIVERS]; /* NULL: this build has none */
	struct registry *registry;
	struct admission *admission;
	struct turn reclaiming; /* one reclaims, the others wait */
	int64_t started_ns;
	int stop_fd; /* eventfd: readable when the daemon is to end */

	pthread_mutex_t mu;
	unsigned sessions, requests;  /* running at the moment */
	unsigned spare_sessions;      /* of those sessions, the ones beyond the limit */
	int64_t idle_since_ns;        /* when the last session ended */
	struct session *session_list; /* all of them, to be cancelled at the end */
	json_t *reclaimed;            /* lines about the start's reclaiming, for the first gc */
	bool errand_runs;             /* reclaiming in the background, since the start */
};

/* An open driver; ERR_UNSUPPORTED if this build has none of that name. */
int daemon_driver(struct daemon *d, const char *name, struct driver **ret, struct err *e);
/* Asks the main thread to end the daemon. Any thread. */
void daemon_stop(struct daemon *d);
