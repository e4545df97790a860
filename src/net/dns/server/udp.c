#include "net/dns/server/udp.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/thread/op.h"

enum {
	TRIES_MAX = 4,
	TRY_MS = 2500,
	BATCH = 64, /* messages read from one socket before the others are served */
};

struct listener {
	int fd;
	struct zone *zone;
};

struct pending {
	int fd; /* -1: unused */
	struct listener *from;
	struct sockaddr_in client;
	struct dns_question q;
	uint16_t id; /* id of our query to the upstream server */
	unsigned tries;
	int64_t deadline;
};

struct dns_udp {
	struct dns_server *s;
	struct listener listeners[DNS_LISTENERS_MAX];
	unsigned n_listeners;
	struct pending pending[DNS_UDP_PENDING];
};

int dns_udp_new(struct dns_server *s, struct dns_udp **ret, struct err *e)
{
	struct dns_udp *u = calloc(1, sizeof(*u));

	if (!u)
		return err_oom(e);
	u->s = s;
	for (unsigned i = 0; i < DNS_UDP_PENDING; i++)
		u->pending[i].fd = -1;
	*ret = u;
	return 0;
}

void dns_udp_add(struct dns_udp *u, int fd, struct zone *z)
{
	u->listeners[u->n_listeners++] = (struct listener){fd, z};
}

/* ---- asking upstream servers ---- */

static void send_back(const struct pending *p, struct bytes data)
{
	/* If this fails, the guest asks again. */
	(void)!sendto(p->from->fd, data.p, data.len, MSG_NOSIGNAL,
		(const struct sockaddr *)&p->client, sizeof(p->client));
}

static void give_up(struct pending *p, enum dns_rcode rcode)
{
	auto_buf struct buf out = {0};
	struct err ignored;

	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
	if (dns_make_answer(&p->q, rcode, 0, NULL, &out, &ignored) == 0)
		send_back(p, buf_bytes(&out));
}

/* Every query has a new port and a new id, so that nobody can guess both. */
static bool ask_next(const struct dns_udp *u, struct pending *p)
{
	auto_buf struct buf query = {0};
	struct err ignored;

	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
	if (dns_new_query(&p->q, &p->id, &query, &ignored) < 0)
		return false;
	while (p->fd == ASKING_NEXT && p->tries < TRIES_MAX)
		p->fd = asking_socket(u->s, false, p->tries++);
	if (p->fd < 0) {
		p->fd = -1;
		return false;
	}
	p->deadline = now_ns() + (int64_t)TRY_MS * 1000000;
	/* If the query cannot be sent, the deadline tries the next server. */
	(void)!send(p->fd, buf_data(&query), query.len, MSG_NOSIGNAL);
	return true;
}

static void ask_outside(struct dns_udp *u, struct listener *from, const struct sockaddr_in *client,
	const struct dns_question *q)
{
	struct pending *p = NULL;
	unsigned mine = 0, room = 0;

	for (unsigned i = 0; i < DNS_UDP_PENDING; i++) {
		if (u->pending[i].fd >= 0) {
			mine += u->pending[i].from->zone == from->zone;
			continue;
		}
		p = &u->pending[i];
		room++;
	}
	/* A vnet may have no more pending questions than are free for the others. */
	if (mine >= room)
		return; /* the guest will ask again */
	*p = (struct pending){.fd = -1, .from = from, .client = *client, .q = *q};
	if (!ask_next(u, p))
		give_up(p, DNS_SERVFAIL);
}

static void take_answer(struct dns_udp *u, struct pending *p)
{
	uint8_t data[DNS_UDP_MAX];
	struct dns_answer a;
	struct err ignored;
	ssize_t n = recv(p->fd, data, sizeof(data), 0);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n < 0) { /* no server there: try the next one */
		if (!ask_next(u, p))
			give_up(p, DNS_SERVFAIL);
		return;
	}
	if (dns_parse_answer((struct bytes){data, (size_t)n}, &p->q, p->id, &a, &ignored) < 0)
		return; /* not our query's answer, or broken: wait on, until the deadline */
	if (!asking_admit(u->s, p->from->zone, p->q.name, &a)) {
		give_up(p, DNS_REFUSED);
		return;
	}
	dns_pass_on(&a, &p->q, data);
	send_back(p, (struct bytes){data, a.end});
	close(p->fd);
	p->fd = -1;
}

/* ---- serving the guests ---- */

static bool take_query(struct dns_udp *u, struct listener *l)
{
	uint8_t data[DNS_UDP_MAX];
	auto_buf struct buf out = {0};
	struct sockaddr_in client;
	socklen_t len = sizeof(client);
	ssize_t n =
		recvfrom(l->fd, data, sizeof(data), MSG_TRUNC, (struct sockaddr *)&client, &len);
	struct pending p = {.from = l};
	enum zone_verdict verdict;
	struct dns_question q;
	struct err ignored;

	if (n < 0)
		return false;
	if ((size_t)n > sizeof(data) ||
		dns_parse_query((struct bytes){data, (size_t)n}, &q, &ignored) < 0)
		return true; /* not a query: gets no answer */
	if (zone_answer(l->zone, &q, &verdict, &out, &ignored) < 0)
		return true;
	if (verdict == ZONE_ASK_UPSTREAM) {
		ask_outside(u, l, &client, &q);
		return true;
	}
	p.client = client;
	send_back(&p, buf_bytes(&out));
	return true;
}

unsigned dns_udp_poll(const struct dns_udp *u, struct pollfd *fds)
{
	unsigned n = 0;

	for (unsigned i = 0; i < u->n_listeners; i++)
		fds[n++] = (struct pollfd){.fd = u->listeners[i].fd, .events = POLLIN};
	for (unsigned i = 0; i < DNS_UDP_PENDING; i++)
		fds[n++] = (struct pollfd){.fd = u->pending[i].fd, .events = POLLIN};
	return n;
}

int64_t dns_udp_deadline(const struct dns_udp *u)
{
	int64_t soonest = INT64_MAX;

	for (unsigned i = 0; i < DNS_UDP_PENDING; i++)
		if (u->pending[i].fd >= 0 && u->pending[i].deadline < soonest)
			soonest = u->pending[i].deadline;
	return soonest;
}

void dns_udp_serve(struct dns_udp *u, const struct pollfd *fds)
{
	for (unsigned i = 0; i < DNS_UDP_PENDING; i++) {
		struct pending *p = &u->pending[i];

		if (p->fd < 0)
			continue;
		if (fds[u->n_listeners + i].revents)
			take_answer(u, p);
		else if (now_ns() >= p->deadline && !ask_next(u, p))
			give_up(p, DNS_SERVFAIL);
	}
	for (unsigned i = 0; i < u->n_listeners; i++)
		for (unsigned k = 0; fds[i].revents && k < BATCH; k++)
			if (!take_query(u, &u->listeners[i]))
				break;
}
