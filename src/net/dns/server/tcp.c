/*
 * How it works: a guest's connection is in one of three states: we read its question, ask an
 * upstream server, or write the answer; then the first state again. Each state has a deadline. If
 * there are too many connections, the one with the earliest deadline is closed.
 */
#include "net/dns/server/tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/dns/stream.h"
#include "util/auto.h"
#include "util/thread/op.h"

enum {
	QUERY_MAX = 4096,
	GUEST_MS = 20000, /* the guest's time to send a question, or to read an answer */
	TRY_MS = 5000,    /* an upstream server's time to answer */
	TRIES_MAX = 3,
	ACCEPTS_MAX = 16, /* connections accepted on one socket before the others are served */
};

enum state { FREE, READING, ASKING, WRITING };

struct conn {
	enum state state;
	struct zone *zone;
	struct dns_stream guest, outside;
	struct dns_question q;
	uint16_t id; /* id of our query to the upstream server */
	unsigned tries;
	int64_t deadline;
};

struct dns_tcp {
	struct dns_server *s;
	struct {
		int fd;
		struct zone *zone;
	} listeners[DNS_LISTENERS_MAX];
	unsigned n_listeners;
	struct conn conns[DNS_TCP_CONNS];
};

int dns_tcp_new(struct dns_server *s, struct dns_tcp **ret, struct err *e)
{
	struct dns_tcp *t = calloc(1, sizeof(*t));

	if (!t)
		return err_oom(e);
	t->s = s;
	for (unsigned i = 0; i < DNS_TCP_CONNS; i++)
		t->conns[i].guest.fd = t->conns[i].outside.fd = -1;
	*ret = t;
	return 0;
}

void dns_tcp_add(struct dns_tcp *t, int fd, struct zone *z)
{
	t->listeners[t->n_listeners].fd = fd;
	t->listeners[t->n_listeners++].zone = z;
}

static void enter(struct conn *c, enum state state, int ms)
{
	c->state = state;
	c->deadline = now_ns() + (int64_t)ms * 1000000;
}

static void end(struct conn *c)
{
	dns_stream_close(&c->guest);
	dns_stream_close(&c->outside);
	c->state = FREE;
}

/* ---- answering ---- */

static void go_on_writing(struct conn *c)
{
	enum dns_stream_state s = dns_stream_write(&c->guest);

	if (s == DNS_STREAM_BROKEN)
		end(c);
	else if (s == DNS_STREAM_DONE)
		enter(c, READING, GUEST_MS);
}

static void answer(struct conn *c, struct bytes message)
{
	struct err ignored;

	dns_stream_close(&c->outside);
	dns_stream_next(&c->guest);
	if (dns_stream_put(&c->guest, message, &ignored) < 0) {
		end(c);
		return;
	}
	enter(c, WRITING, GUEST_MS);
	go_on_writing(c);
}

static void give_up(struct conn *c, enum dns_rcode rcode)
{
	auto_buf struct buf out = {0};
	struct err ignored;

	if (dns_make_answer(&c->q, rcode, 0, NULL, &out, &ignored) < 0)
		end(c);
	else
		answer(c, buf_bytes(&out));
}

/* ---- asking upstream servers ---- */

static void ask_next(const struct dns_tcp *t, struct conn *c)
{
	auto_buf struct buf query = {0};
	struct err ignored;

	dns_stream_close(&c->outside);
	while (c->outside.fd == ASKING_NEXT && c->tries < TRIES_MAX)
		c->outside.fd = asking_socket(t->s, true, c->tries++);
	if (c->outside.fd < 0) {
		c->outside.fd = -1;
		give_up(c, DNS_SERVFAIL);
	} else if (dns_new_query(&c->q, &c->id, &query, &ignored) < 0 ||
		   dns_stream_put(&c->outside, buf_bytes(&query), &ignored) < 0) {
		give_up(c, DNS_SERVFAIL);
	} else {
		enter(c, ASKING, TRY_MS);
	}
}

static void take_answer(struct dns_tcp *t, struct conn *c)
{
	struct bytes in = dns_stream_message(&c->outside);
	struct dns_answer a;
	struct err ignored;

	if (dns_parse_answer(in, &c->q, c->id, &a, &ignored) < 0) {
		ask_next(t, c);
	} else if (!asking_admit(t->s, c->zone, c->q.name, &a)) {
		give_up(c, DNS_REFUSED);
	} else {
		auto_buf struct buf message =
			c->outside.in; /* taken, because answer() closes the upstream connection */

		c->outside.in = (struct buf){0};
		buf_drop(&message, message.len - in.len);
		dns_pass_on(&a, &c->q, buf_data(&message));
		answer(c, (struct bytes){buf_data(&message), a.end});
	}
}

static void go_on_asking(struct dns_tcp *t, struct conn *c)
{
	enum dns_stream_state s = dns_stream_write(&c->outside);

	if (s == DNS_STREAM_DONE)
		s = dns_stream_read(&c->outside, DNS_MESSAGE_MAX);
	if (s == DNS_STREAM_BROKEN)
		ask_next(t, c);
	else if (s == DNS_STREAM_DONE)
		take_answer(t, c);
}

/* ---- serving the guests ---- */

static void take_query(const struct dns_tcp *t, struct conn *c)
{
	auto_buf struct buf out = {0};
	enum zone_verdict verdict;
	struct err ignored;

	if (dns_parse_query(dns_stream_message(&c->guest), &c->q, &ignored) < 0 ||
		zone_answer(c->zone, &c->q, &verdict, &out, &ignored) < 0) {
		end(c); /* not a query: gets no answer */
	} else if (verdict == ZONE_ASK_UPSTREAM) {
		c->tries = 0;
		ask_next(t, c);
	} else {
		answer(c, buf_bytes(&out));
	}
}

static void go_on_reading(const struct dns_tcp *t, struct conn *c)
{
	enum dns_stream_state s = dns_stream_read(&c->guest, QUERY_MAX);

	if (s == DNS_STREAM_BROKEN)
		end(c);
	else if (s == DNS_STREAM_DONE)
		take_query(t, c);
}

/* Finds a place for a new connection. A vnet with more connections than there are free places loses
 * one of its own. */
static struct conn *find_room(struct dns_tcp *t, const struct zone *z)
{
	struct conn *first = &t->conns[0], *own = NULL, *room = NULL;
	unsigned n_own = 0, n_room = 0;

	for (unsigned i = 0; i < DNS_TCP_CONNS; i++) {
		struct conn *c = &t->conns[i];

		if (c->state == FREE) {
			room = c;
			n_room++;
			continue;
		}
		if (c->deadline < first->deadline)
			first = c;
		if (c->zone == z && (!own || c->deadline < own->deadline))
			own = c;
		n_own += c->zone == z;
	}
	if (n_own < n_room)
		return room;
	first = own ? own : first;
	end(first);
	return first;
}

static void take_connections(struct dns_tcp *t, unsigned listener)
{
	for (unsigned i = 0; i < ACCEPTS_MAX; i++) {
		int fd = accept4(
			t->listeners[listener].fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct conn *c;

		if (fd < 0)
			return;
		c = find_room(t, t->listeners[listener].zone);
		c->guest.fd = fd;
		c->zone = t->listeners[listener].zone;
		enter(c, READING, GUEST_MS);
	}
}

unsigned dns_tcp_poll(const struct dns_tcp *t, struct pollfd *fds)
{
	unsigned n = 0;

	for (unsigned i = 0; i < t->n_listeners; i++)
		fds[n++] = (struct pollfd){.fd = t->listeners[i].fd, .events = POLLIN};
	for (unsigned i = 0; i < DNS_TCP_CONNS; i++) {
		const struct conn *c = &t->conns[i];

		/* While an upstream server is asked, watch only whether the guest has gone. */
		fds[n++] = (struct pollfd){.fd = c->guest.fd,
			.events = c->state == READING   ? POLLIN
				  : c->state == WRITING ? POLLOUT
							: 0};
		fds[n++] = (struct pollfd){
			.fd = c->outside.fd, .events = c->outside.out.len ? POLLOUT : POLLIN};
	}
	return n;
}

int64_t dns_tcp_deadline(const struct dns_tcp *t)
{
	int64_t soonest = INT64_MAX;

	for (unsigned i = 0; i < DNS_TCP_CONNS; i++)
		if (t->conns[i].state != FREE && t->conns[i].deadline < soonest)
			soonest = t->conns[i].deadline;
	return soonest;
}

static void serve(struct dns_tcp *t, struct conn *c, short guest, short outside)
{
	if (c->state == READING && guest)
		go_on_reading(t, c);
	else if (c->state == WRITING && guest)
		go_on_writing(c);
	else if (c->state == ASKING && guest & (POLLERR | POLLHUP))
		end(c);
	else if (c->state == ASKING && outside)
		go_on_asking(t, c);
	else if (c->state == ASKING && now_ns() >= c->deadline)
		ask_next(t, c);
	else if (c->state != FREE && now_ns() >= c->deadline)
		end(c);
}

void dns_tcp_serve(struct dns_tcp *t, const struct pollfd *fds)
{
	/* Accept last: new connections are not among the polled fds. */
	for (unsigned i = 0; i < DNS_TCP_CONNS; i++)
		serve(t, &t->conns[i], fds[t->n_listeners + 2 * i].revents,
			fds[t->n_listeners + 2 * i + 1].revents);
	for (unsigned i = 0; i < t->n_listeners; i++)
		if (fds[i].revents)
			take_connections(t, i);
}
