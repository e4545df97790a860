/* stream.h - bytes between a channel of an SSH connection and a socket. */
#pragma once

#include "ssh/link.h"
#include "util/buf.h"

enum { STREAM_HELD_MAX = 256 * 1024, STREAM_HOST_MAX = 256 };

struct stream {
	ssh_channel channel;
	int fd;       /* our end; -1: whoever dialled has left */
	bool opening; /* to host and port */
	char host[STREAM_HOST_MAX];
	unsigned port;
	struct buf to_fd, to_ssh;
	bool fd_ended, eof_sent; /* the socket's end was seen; was passed on */
	bool fd_shut;            /* the channel's end was passed on */
	bool hung_up;            /* nobody is at the other end of the socket */
	struct stream *next;
};

/* Moves what can be moved without waiting; *moved is set if anything was. -1: it is over. */
int stream_move(struct stream *s, bool *moved);
/* While s->opening: 0 as long as nothing is decided; -1: it was refused, and the socket told so. */
int stream_open(struct link *l, struct stream *s, bool *moved);
/* To whoever dialled. */
void stream_answer(struct stream *s, enum ssh_answer word);
/* What to wait for on the socket; 0: nothing, it need not be watched. */
short stream_events(const struct stream *s);
/* It would take more from the guest. */
bool stream_wants(const struct stream *s);
/* Something can be moved at once, without anything happening on a socket. */
bool stream_ready(struct stream *s);
/* It waits for something that another stream's packets may have brought along already: libssh
 * tells nobody, so look again soon. */
bool stream_hurries(struct stream *s);
/* Its socket and its channel are closed; it may be on the stack, or in something. */
void stream_close(struct stream *s);
