/*
 * visitor.h - one connection to the console: a request for a file of the page, or a websocket whose
 * messages are the frames of one connection to the daemon.
 *
 * How it works: every visitor starts with a head. A file is answered, and the connection ends. A
 * websocket first has to say the token; then it is linked: a connection to the daemon is opened,
 * and frames go to and fro. Whoever is not linked has little time and little room.
 *
 * Thread contract: the server's only thread. Nothing here waits.
 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/buf.h"
#include "util/thread/op.h"

enum { TOKEN_BYTES = 16, TOKEN_SIZE = 2 * TOKEN_BYTES + 1 };

/* The server, as visitors see it. */
struct visit_rules {
	unsigned port;
	char token[TOKEN_SIZE];
	bool read_only;
	bool room; /* one more may be linked */
	/* Opens a connection to the daemon. */
	int (*link)(void *arg, int *ret_fd, struct err *e);
	void *arg;
};

enum visitor_state {
	VISITOR_HEAD,   /* its request has not come yet */
	VISITOR_TOKEN,  /* a websocket that has not said the token */
	VISITOR_LINKED, /* a websocket with a connection to the daemon */
	VISITOR_LEAVES, /* what is left to be sent is sent, then it ends */
	VISITOR_GONE,
};

struct visitor {
	int fd, link; /* link: -1 while there is none */
	enum visitor_state state;
	int64_t deadline_ns; /* unless it is linked */
	struct buf in, out, link_in, link_out;
	struct buf message; /* pieces of a message that comes in several frames */
	bool text, in_message;
	bool acting; /* its person wants to change something */
	bool wrote_all;
};

struct visitor *visitor_new(int fd); /* takes fd; NULL: out of memory */
void visitor_free(struct visitor *v);
/* Fills in what it waits for: its own socket, and the daemon's. */
void visitor_wants(const struct visitor *v, struct pollfd fds[2]);
/* Does what can be done. It is to be freed when its state is VISITOR_GONE afterwards. */
void visitor_run(struct visitor *v, const struct visit_rules *rules, const struct pollfd fds[2]);
