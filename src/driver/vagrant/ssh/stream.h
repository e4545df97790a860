/* stream.h - bytes between a channel of an SSH connection and a socket. The one thread of moat-ssh.
 */
#pragma once

#include "driver/vagrant/ssh/conn.h"
#include "util/buf.h"

enum { STREAM_HELD_MAX = 256 * 1024, STREAM_HOST_MAX = 256 };

struct stream {
	ssh_channel channel;
	int fd;       /* our end; -1: the caller that dialled has left */
	bool opening; /* to host and port */
	char host[STREAM_HOST_MAX];
	unsigned port;
	struct buf to_fd, to_ssh;
	bool fd_ended, eof_sent; /* the socket's end was seen; was passed on */
	bool fd_shut;            /* the channel's end was passed on */
	bool hung_up;            /* the other end of the socket is closed */
	struct stream *next;
};

/* Moves what can be moved without waiting; *moved is set if anything was. -1: the stream has ended.
 */
int stream_move(struct stream *s, bool *moved);
/* While s->opening: 0 as long as nothing is decided; -1: it was refused, and the socket told so. */
int stream_open(struct ssh_conn *conn, struct stream *s, bool *moved);
/* Answers the caller that dialled. */
void stream_answer(struct stream *s, enum ssh_answer word);
/* What to wait for on the socket; 0: nothing, it need not be watched. */
short stream_events(const struct stream *s);
/* Whether it has room for more from the guest. */
bool stream_wants(const struct stream *s);
/* Whether something can be moved at once, without waiting for a socket. */
bool stream_ready(struct stream *s);
/* Whether it waits for what may have come already with another stream's packets: libssh does not
 * tell, so look again soon. */
bool stream_hurries(struct stream *s);
/* Closes its socket and its channel. Does not free the struct. */
void stream_close(struct stream *s);
