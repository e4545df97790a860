#include "net/holder/dns.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/holder/dns-tcp.h"
#include "net/holder/netns.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/json.h"

enum {
	PENDING_MAX = 256, /* questions that upstream servers have not answered yet */
	TRIES_MAX = 4,
	TRY_MS = 2500,
	LISTEN_MAX = DNS_TCP_LISTENERS,
	BATCH = 64, /* messages read from one socket before the others are served */
	BACKLOG = 16,
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

struct dns {
	struct holder *h;
	struct zone *zones;
	size_t n_zones;
	struct listener listeners[LISTEN_MAX];
	unsigned n_listeners;
	struct pending pending[PENDING_MAX];
	struct dns_tcp *tcp;
};

static_assert(LISTEN_MAX + PENDING_MAX + DNS_TCP_POLL_MAX <= DNS_POLL_MAX, "room for all");

/* ---- starting ---- */

struct bind_job {
	const char *addr;
	int udp, tcp;
};

static int bind_inside(void *arg, struct err *e)
{
	struct bind_job *job = arg;
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(DNS_PORT)};
	auto_fd int udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	auto_fd int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (udp < 0 || tcp < 0 || inet_pton(AF_INET, job->addr, &at.sin_addr) != 1 ||
		bind(udp, (struct sockaddr *)&at, sizeof(at)) < 0 ||
		bind(tcp, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(tcp, BACKLOG) < 0)
		return err_sys(e, errno, "DNS on %s", job->addr);
	job->udp = take_fd(&udp);
	job->tcp = take_fd(&tcp);
	return 0;
}

static int start_zone(struct dns *d, json_t *j, struct err *e)
{
	struct zone *z = &d->zones[d->n_zones++];
	json_t *addr;
	size_t i;

	if (zone_load(z, j, e) < 0)
		return -1;
	json_array_foreach(json_object_get(j, "listen"), i, addr) {
		struct bind_job job = {.addr = json_string_value(addr)};

		if (d->n_listeners == LISTEN_MAX)
			return err_set(e, ERR_INTERNAL, "too many networks");
		if (netns_run(d->h->netns, bind_inside, &job, NULL, e) < 0)
			return -1;
		d->listeners[d->n_listeners++] = (struct listener){job.udp, z};
		if (dns_tcp_add(d->tcp, job.tcp, z, e) < 0)
			return -1;
	}
	return 0;
}

int dns_start(struct holder *h, struct dns **ret, struct err *e)
{
	json_t *list = json_object_get(h->plan, "dns"), *one;
	struct dns *d = calloc(1, sizeof(*d));
	size_t i;

	if (d)
		d->zones = calloc(json_array_size(list) + 1, sizeof(*d->zones));
	if (!d || !d->zones) {
		free(d);
		return err_oom(e);
	}
	d->h = h;
	for (unsigned k = 0; k < PENDING_MAX; k++)
		d->pending[k].fd = -1;
	*ret = d; /* never freed: lives as long as the holder */
	if (dns_tcp_new(h, &d->tcp, e) < 0)
		return -1;
	json_array_foreach(list, i, one)
		if (start_zone(d, one, e) < 0)
			return -1;
	return 0;
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
static bool ask_next(const struct dns *d, struct pending *p)
{
	struct sockaddr_storage servers[DNS_SERVERS_MAX];
	unsigned n = dns_servers(d->h, servers);
	const struct sockaddr_storage *to;
	auto_buf struct buf query = {0};
	struct err ignored;

	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
	if (n == 0 || p->tries >= TRIES_MAX)
		return false;
	to = &servers[p->tries++ % n];
	p->fd = socket(to->ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (p->fd < 0 || dns_new_query(&p->q, &p->id, &query, &ignored) < 0)
		return false;
	p->deadline = now_ns() + (int64_t)TRY_MS * 1000000;
	/* If the query cannot be sent, the deadline tries the next server. */
	if (connect(p->fd, (const struct sockaddr *)to, sizeof(*to)) == 0)
		(void)!send(p->fd, buf_data(&query), query.len, MSG_NOSIGNAL);
	return true;
}

static void ask_outside(struct dns *d, struct listener *from, const struct sockaddr_in *client,
	const struct dns_question *q)
{
	struct pending *p = NULL;
	unsigned mine = 0, room = 0;

	for (unsigned i = 0; i < PENDING_MAX; i++) {
		if (d->pending[i].fd >= 0) {
			mine += d->pending[i].from->zone == from->zone;
			continue;
		}
		p = &d->pending[i];
		room++;
	}
	/* A vnet may have no more pending questions than are free for the others. */
	if (mine >= room)
		return; /* the guest will ask again */
	*p = (struct pending){.fd = -1, .from = from, .client = *client, .q = *q};
	if (!ask_next(d, p))
		give_up(p, DNS_SERVFAIL);
}

static void take_answer(struct dns *d, struct pending *p)
{
	uint8_t data[DNS_UDP_MAX];
	struct dns_answer a;
	struct err ignored;
	ssize_t n = recv(p->fd, data, sizeof(data), 0);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n < 0) { /* no server there: try the next one */
		if (!ask_next(d, p))
			give_up(p, DNS_SERVFAIL);
		return;
	}
	if (dns_parse_answer((struct bytes){data, (size_t)n}, &p->q, p->id, &a, &ignored) < 0)
		return; /* not our query's answer, or broken: wait on, until the deadline */
	if (!dns_admit(d->h, p->from->zone, p->q.name, &a)) {
		give_up(p, DNS_REFUSED);
		return;
	}
	dns_pass_on(&a, &p->q, data);
	send_back(p, (struct bytes){data, a.end});
	close(p->fd);
	p->fd = -1;
}

/* ---- serving the guests ---- */

static bool take_query(struct dns *d, struct listener *l)
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
		ask_outside(d, l, &client, &q);
		return true;
	}
	p.client = client;
	send_back(&p, buf_bytes(&out));
	return true;
}

unsigned dns_poll(const struct dns *d, struct pollfd *fds)
{
	unsigned n = 0;

	for (unsigned i = 0; i < d->n_listeners; i++)
		fds[n++] = (struct pollfd){.fd = d->listeners[i].fd, .events = POLLIN};
	for (unsigned i = 0; i < PENDING_MAX; i++)
		fds[n++] = (struct pollfd){.fd = d->pending[i].fd, .events = POLLIN};
	return n + dns_tcp_poll(d->tcp, fds + n);
}

int dns_timeout(const struct dns *d)
{
	int64_t soonest = dns_tcp_deadline(d->tcp), left;

	for (unsigned i = 0; i < PENDING_MAX; i++)
		if (d->pending[i].fd >= 0 && d->pending[i].deadline < soonest)
			soonest = d->pending[i].deadline;
	if (soonest == INT64_MAX)
		return -1;
	left = soonest - now_ns();
	return left <= 0 ? 0 : (int)(left / 1000000) + 1;
}

void dns_serve(struct dns *d, const struct pollfd *fds)
{
	for (unsigned i = 0; i < PENDING_MAX; i++) {
		struct pending *p = &d->pending[i];

		if (p->fd < 0)
			continue;
		if (fds[d->n_listeners + i].revents)
			take_answer(d, p);
		else if (now_ns() >= p->deadline && !ask_next(d, p))
			give_up(p, DNS_SERVFAIL);
	}
	for (unsigned i = 0; i < d->n_listeners; i++)
		for (unsigned k = 0; fds[i].revents && k < BATCH; k++)
			if (!take_query(d, &d->listeners[i]))
				break;
	dns_tcp_serve(d->tcp, fds + d->n_listeners + PENDING_MAX);
}

json_t *dns_refusals(const struct dns *d)
{
	json_t *all = json_array();

	for (size_t i = 0; all && i < d->n_zones; i++) {
		json_t *some = zone_refusals(&d->zones[i]);

		if (!some || json_array_extend(all, some) < 0) {
			json_decref(all);
			all = NULL;
		}
		json_decref(some);
	}
	return all;
}
