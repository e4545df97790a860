/*
 * client.h - one connection to the daemon, one request at a time. docs/protocol.md describes the
 * protocol.
 *
 * A call returns when the request's final frame has come. Meanwhile input and output are streamed
 * in pieces, in constant memory. The first SIGINT, SIGTERM or SIGHUP cancels the request; the call
 * still waits for its end.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "util/buf.h"
#include "util/system/paths.h"

struct client;

enum client_flag {
	CLIENT_START = 1u << 0,        /* start a daemon if there is none */
	CLIENT_ANY_PROTOCOL = 1u << 1, /* for `shutdown`, which all versions understand */
	CLIENT_URGENT =
		1u << 2, /* for `shutdown`: connect even when the daemon has too many connections */
	CLIENT_ANY_CONFIG =
		1u << 3, /* for `doctor`: start one even if its configuration is wrong */
};

int client_open(const struct paths *paths, unsigned flags, struct client **ret, struct err *e);
void client_close(struct client *c); /* NULL is fine */
static inline void auto_clientp(struct client **c)
{
	client_close(*c);
}
#define auto_client __attribute__((cleanup(auto_clientp)))

long client_daemon_pid(const struct client *c);

enum call_stream { CALL_STDOUT, CALL_STDERR, CALL_BODY };

struct call {
	const char *op;
	json_t *args;      /* borrowed; NULL: none */
	double timeout;    /* seconds; 0: none */
	struct bytes blob; /* p not NULL: this is the whole input, or a stream's beginning */
	bool stream_input; /* the input is read from input_fd, until its end */
	int input_fd;
	bool tty; /* report the terminal's size when it changes */
	/* Each may be NULL. data: -1 cancels the request, and the call fails with that error. */
	int (*data)(void *arg, enum call_stream stream, struct bytes data, struct err *e);
	void (*progress)(void *arg, const char *text, uint64_t done, uint64_t total);
	void (*sent)(void *arg, size_t n); /* the daemon has consumed n more bytes of input */
	void (*tick)(void *arg);           /* called now and then while nothing happens */
	int (*event)(void *arg, const json_t *event, struct err *e); /* -1: as data */
	/* A key was pressed: standard input is a terminal in raw mode. True ends the call as a
	 * signal does. */
	bool (*key)(void *arg, char key);
	void *arg;
};

/* *ret: the result object, which the caller releases; may be NULL. An error has the daemon's kind,
 * message and errno. */
int client_call(struct client *c, const struct call *call, json_t **ret, struct err *e);

/* Waits for a signal (0) or for the end of the connection (-1). */
int client_wait_signal(struct client *c, struct err *e);
