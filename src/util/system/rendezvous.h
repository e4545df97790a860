/*
 * rendezvous.h - where the daemon and its clients meet: the daemon's socket, and the file locks
 * that make it the only one of its state directory.
 *
 * The lock of the state directory, daemon.lock, has a note in it: "PID HOST SOCKET". It leads every
 * client of that state to the daemon, also one that would look for the socket elsewhere. A note
 * counts only while the lock is held: a daemon that was killed leaves an old one.
 *
 * Thread contract: any thread; a struct rendezvous belongs to the thread that took it.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "util/system/paths.h"
#include "util/thread/op.h"

struct rendezvous {
	const struct paths *paths;
	int state_lock;
	int runtime_lock; /* -1: the socket is in the state directory */
	int listener;
};

#define RENDEZVOUS_INIT ((struct rendezvous){.state_lock = -1, .runtime_lock = -1, .listener = -1})

/*
 * Takes the locks of both directories. A daemon that holds one but does not serve is ending, or has
 * just been killed: waits for it. ERR_BUSY: another daemon serves. `paths` must outlive it.
 */
int rendezvous_take(
	const struct op *op, const struct paths *paths, struct rendezvous *ret, struct err *e);
/* Listens on the socket, and notes that in the lock. */
int rendezvous_listen(struct rendezvous *p, struct err *e);
/* Listens again if the socket's file is gone: a cleaner removes old files, and logind removes
 * directories of users who have logged out. Returns 1 if it did. */
int rendezvous_keep(struct rendezvous *p, struct err *e);
/* No new client finds the daemon any more. The locks stay. */
void rendezvous_stop_listening(struct rendezvous *p);
void rendezvous_leave(struct rendezvous *p);

/* For clients. */

struct rendezvous_note {
	long pid; /* 0: the daemon has noted nothing; it starts or ends */
	char host[64];
	bool here;             /* it runs on this host */
	char socket[PATH_MAX]; /* "" without a note */
};

/* Whether a daemon holds the state directory, and its note. */
bool rendezvous_held(const struct paths *paths, struct rendezvous_note *ret);
/* Pure: parses a note; false, and nothing in *ret, if it is none. */
bool rendezvous_parse_note(const char *text, struct rendezvous_note *ret);

/* connect(2) for a path of any length: -1 and errno. */
int rendezvous_connect(int fd, const char *path);
