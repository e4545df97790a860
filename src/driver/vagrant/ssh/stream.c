#include "driver/vagrant/ssh/stream.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/auto.h"

enum { PIECE = 32 * 1024 };

/* ---- from the guest ---- */

static int from_guest(struct stream *s, bool *moved)
{
	uint8_t nowhere[4096];

	while (stream_wants(s)) {
		uint8_t *room = buf_room(&s->to_fd, PIECE);
		int got = room ? ssh_channel_read_nonblocking(s->channel, room, PIECE, 0) : -1;

		if (got == 0 || got == SSH_AGAIN || got == SSH_EOF)
			break;
		if (got < 0)
			return -1;
		buf_grew(&s->to_fd, (size_t)got);
		*moved = true;
	}
	/* A command's stderr would fill the window of the channel. */
	while (ssh_channel_read_nonblocking(s->channel, nowhere, sizeof(nowhere), 1) > 0)
		;
	return 0;
}

static void to_fd(struct stream *s, bool *moved)
{
	while (s->to_fd.len && !s->hung_up) {
		ssize_t n =
			send(s->fd, buf_data(&s->to_fd), s->to_fd.len, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < 0) {
			s->hung_up = true;
			break;
		}
		buf_drop(&s->to_fd, (size_t)n);
		*moved = true;
	}
	if (s->hung_up)
		buf_drop(&s->to_fd, s->to_fd.len);
	if (!s->to_fd.len && !s->fd_shut && ssh_channel_is_eof(s->channel)) {
		shutdown(s->fd, SHUT_WR);
		s->fd_shut = true;
		*moved = true;
	}
}

/* ---- to the guest ---- */

/* Writes what the channel's window takes; the rest stays for the next time. */
static int to_guest(struct stream *s, bool *moved)
{
	int sent = s->to_ssh.len ? ssh_channel_write(s->channel, buf_data(&s->to_ssh),
					   (uint32_t)s->to_ssh.len)
				 : 0;

	if (sent < 0 && sent != SSH_AGAIN)
		return -1;
	if (sent > 0) {
		buf_drop(&s->to_ssh, (size_t)sent);
		*moved = true;
	}
	return 0;
}

static int from_fd(struct stream *s, bool *moved)
{
	if (to_guest(s, moved) < 0)
		return -1;
	while (!s->to_ssh.len && !s->fd_ended) {
		uint8_t *room = buf_room(&s->to_ssh, PIECE);
		ssize_t n = room ? recv(s->fd, room, PIECE, MSG_DONTWAIT) : -1;

		if (n < 0 && room && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n <= 0) {
			s->fd_ended = true;
			break;
		}
		buf_grew(&s->to_ssh, (size_t)n);
		if (to_guest(s, moved) < 0)
			return -1;
	}
	if (s->fd_ended && !s->to_ssh.len && !s->eof_sent) {
		ssh_channel_send_eof(s->channel);
		s->eof_sent = true;
		*moved = true;
	}
	return 0;
}

int stream_move(struct stream *s, bool *moved)
{
	if (from_guest(s, moved) < 0) {
		to_fd(s, moved);
		return -1;
	}
	to_fd(s, moved);
	if (from_fd(s, moved) < 0)
		return -1;
	return s->eof_sent && (s->fd_shut || s->hung_up) ? -1 : 0;
}

/* ---- opening ---- */

void stream_answer(struct stream *s, enum ssh_answer word)
{
	uint8_t byte = (uint8_t)word;

	if (send(s->fd, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
		s->hung_up = true; /* the caller that dialled has left */
}

/* libssh tells the reason that the server gave as text only: "... error (1) ..." is
 * SSH_OPEN_ADMINISTRATIVELY_PROHIBITED. */
static bool was_prohibited(ssh_session session)
{
	return strstr(ssh_get_error(session), "error (1)") != NULL;
}

int stream_open(struct ssh_conn *conn, struct stream *s, bool *moved)
{
	uint8_t byte;
	int rc = ssh_channel_open_forward(
		s->channel, s->host, (int)s->port, "127.0.0.1", (int)s->port);

	/* The channel cannot be taken back before the server has answered. */
	if (s->fd >= 0 && recv(s->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0) {
		close(s->fd);
		s->fd = -1;
	}
	if (rc == SSH_AGAIN)
		return 0;
	*moved = true;
	s->opening = false;
	if (s->fd < 0)
		return -1;
	if (rc == SSH_OK) {
		stream_answer(s, SSH_IS_OPEN);
		return 0;
	}
	stream_answer(s, was_prohibited(conn->session) ? SSH_PROHIBITED : SSH_REFUSED);
	return -1;
}

/* ---- waiting ---- */

short stream_events(const struct stream *s)
{
	if (s->fd < 0 || s->hung_up)
		return 0;
	if (s->opening)
		return POLLIN; /* only to see its end */
	return (short)((s->to_ssh.len || s->fd_ended ? 0 : POLLIN) | (s->to_fd.len ? POLLOUT : 0));
}

bool stream_wants(const struct stream *s)
{
	return s->to_fd.len < STREAM_HELD_MAX && !s->fd_shut;
}

bool stream_ready(struct stream *s)
{
	if (s->opening || !stream_wants(s))
		return false;
	return ssh_channel_poll(s->channel, 0) > 0 ||
	       (!s->to_fd.len && ssh_channel_is_eof(s->channel));
}

bool stream_hurries(struct stream *s)
{
	return s->opening || (s->to_ssh.len && ssh_channel_window_size(s->channel) > 0);
}

void stream_close(struct stream *s)
{
	if (s->fd >= 0)
		close(s->fd);
	if (s->channel)
		ssh_channel_free(s->channel);
	buf_free(&s->to_fd);
	buf_free(&s->to_ssh);
	s->fd = -1;
	s->channel = NULL;
}
