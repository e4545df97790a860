/*
 * How it works: a client sends one line, reads the answer, and is closed.
 *
 *     start LENGTH    and a record: answers "ok", or "error" and why
 *     status          "STAGE CODE STARTS"
 *     wait            as status, once the service has ended
 *     log, follow     the log; follow goes on until the client hangs up
 */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "moat-init/ctl.h"
#include "moat-init/init.h"
#include "wire/service.h"

int clients_open(struct init *in)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	socklen_t len;

	for (int i = 0; i < CLIENTS_MAX; i++)
		in->clients[i].fd = -1;
	memcpy(at.sun_path + 1, CTL_SOCKET, strlen(CTL_SOCKET));
	len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(CTL_SOCKET));
	in->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return in->listener < 0 || bind(in->listener, (struct sockaddr *)&at, len) < 0 ||
			       listen(in->listener, CLIENTS_MAX) < 0
		       ? errno
		       : 0;
}

static void drop(struct client *c)
{
	close(c->fd);
	free(c->record);
	*c = (struct client){.fd = -1};
}

void clients_accept(struct init *in)
{
	int fd = accept4(in->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred who = {.uid = (uid_t)-1};
	socklen_t len = sizeof(who);

	if (fd < 0)
		return;
	for (int i = 0; i < CLIENTS_MAX; i++)
		if (in->clients[i].fd < 0 &&
			getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 && who.uid == 0) {
			in->clients[i] = (struct client){.fd = fd};
			return;
		}
	close(fd);
}

/* Short answers fit into the socket of somebody who has asked one question. */
static void answer(struct client *c, const char *text)
{
	if (send(c->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
		shutdown(c->fd, SHUT_WR);
	drop(c);
}

static void answer_status(struct init *in, struct client *c)
{
	static const char *const names[] = {
		[SERVICE_NONE] = "none",
		[SERVICE_WAITS] = "waits",
		[SERVICE_RUNS] = "runs",
		[SERVICE_PAUSES] = "pauses",
		[SERVICE_ENDED] = "ended",
	};
	char line[100];

	snprintf(line, sizeof(line), "%s %d %u\n", names[in->service.stage], in->service.code,
		in->service.starts);
	answer(c, line);
}

static void begin_record(struct client *c, const char *length)
{
	long n;

	if (!record_number(length, 0, SERVICE_RECORD_MAX, &n) ||
		!(c->record = malloc((size_t)n + 1)))
		return answer(c, "error the record is too large\n");
	c->record_size = (size_t)n;
	c->stage = READING_RECORD;
}

static void asked(struct init *in, struct client *c)
{
	if (strncmp(c->line, "start ", 6) == 0)
		return begin_record(c, c->line + 6);
	if (strcmp(c->line, "status") == 0)
		return answer_status(in, c);
	if (strcmp(c->line, "wait") == 0 && in->service.stage == SERVICE_ENDED)
		return answer_status(in, c);
	if (strcmp(c->line, "wait") == 0)
		c->stage = AWAITING_END;
	else if (strcmp(c->line, "log") == 0)
		c->stage = SENDING_LOG;
	else if (strcmp(c->line, "follow") == 0)
		c->stage = FOLLOWING;
	else
		answer(c, "error what?\n");
	c->until = c->stage == FOLLOWING ? UINT64_MAX : in->log.end;
}

static void read_line(struct init *in, struct client *c)
{
	while (c->stage == ASKING) {
		char *at = c->line + c->line_len;
		ssize_t n;

		if (c->line_len == sizeof(c->line) - 1)
			return answer(c, "error what?\n");
		n = recv(c->fd, at, 1, 0);
		if (n < 0 && errno == EAGAIN)
			return;
		if (n != 1)
			return drop(c);
		if (*at == '\n') {
			*at = 0;
			return asked(in, c);
		}
		c->line_len++;
	}
}

static void read_record(struct init *in, struct client *c)
{
	char why[160], text[200];
	const char *refused;

	while (c->record_len < c->record_size) {
		ssize_t n =
			recv(c->fd, c->record + c->record_len, c->record_size - c->record_len, 0);

		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0)
			return drop(c);
		c->record_len += (size_t)n;
	}
	refused = service_take(in, c->record, c->record_size, why, sizeof(why));
	if (refused) {
		snprintf(text, sizeof(text), "error %s\n", refused);
		return answer(c, text);
	}
	c->record = NULL; /* it is the service's now */
	c->stage = AWAITING_START;
}

static void send_log(struct init *in, struct client *c)
{
	char piece[PIECE];
	uint64_t lost;
	size_t n;
	ssize_t sent;

	/* A service may write faster than the log is read. */
	while (c->at < c->until &&
		(n = ring_get(&in->log, &c->at, piece, sizeof(piece), &lost)) > 0) {
		if (c->at > c->until && c->at - c->until <= n)
			n -= (size_t)(c->at - c->until), c->at = c->until;
		sent = send(c->fd, piece, n, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent < 0 && errno != EAGAIN)
			return drop(c);
		if (sent < (ssize_t)n) {
			c->at -= n - (sent < 0 ? 0 : (size_t)sent);
			return;
		}
	}
	if (c->stage == SENDING_LOG)
		drop(c);
}

short client_events(const struct init *in, const struct client *c)
{
	switch (c->stage) {
	case ASKING:
	case READING_RECORD:
		return POLLIN;
	case AWAITING_START:
	case AWAITING_END:
		return POLLRDHUP;
	case SENDING_LOG:
		return POLLOUT;
	case FOLLOWING:
		return c->at < in->log.end ? POLLOUT | POLLRDHUP : POLLRDHUP;
	}
	return 0;
}

void client_ready(struct init *in, struct client *c, short events)
{
	if (c->stage == ASKING)
		read_line(in, c);
	if (c->fd >= 0 && c->stage == READING_RECORD)
		read_record(in, c);
	if (c->fd >= 0 && (c->stage == SENDING_LOG || c->stage == FOLLOWING))
		send_log(in, c);
	if (c->fd >= 0 && events & (POLLHUP | POLLERR | POLLRDHUP) && c->stage >= AWAITING_START)
		drop(c);
}

void clients_started(struct init *in, const char *why)
{
	char text[300];

	snprintf(text, sizeof(text), why ? "error %s\n" : "ok\n", why);
	for (int i = 0; i < CLIENTS_MAX; i++)
		if (in->clients[i].fd >= 0 && in->clients[i].stage == AWAITING_START)
			answer(&in->clients[i], text);
}

void clients_ended(struct init *in)
{
	for (int i = 0; i < CLIENTS_MAX; i++)
		if (in->clients[i].fd >= 0 && in->clients[i].stage == AWAITING_END)
			answer_status(in, &in->clients[i]);
}
