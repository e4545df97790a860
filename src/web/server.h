/*
 * server.h - the console: answers browsers on a port of loopback. One thread serves all visitors;
 * nothing that it does for one waits.
 *
 * The number of visitors is bounded. Where there are too many, the one that has waited longest
 * without the token makes room, so that strangers cannot keep the user out.
 */
#pragma once

#include "util/system/paths.h"
#include "util/system/proc.h"
#include "util/thread/op.h"
#include "web/address.h"

struct server_options {
	const struct paths *paths;
	unsigned port;       /* 0: any that is free */
	double idle_seconds; /* it ends when no page has been open for so long */
	bool read_only;
	int stop_fd; /* readable: it ends */
	/* A process that may end meanwhile. */
	struct proc *child;
	void (*child_ended)(struct proc *child); /* reaps it */
};

struct server;

int server_new(const struct server_options *options, struct server **ret, struct err *e);
void server_free(struct server *s);
/* http://127.0.0.1:PORT/#TOKEN */
void server_address(const struct server *s, char ret[ADDRESS_MAX]);
/* Serves until it is told to end or nobody has looked for long. */
int server_run(struct server *s, struct err *e);
