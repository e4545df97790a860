#include "net/dns.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/dns-tcp.h"
#include "net/netns.h"
#include "util/auto.h"
#include "util/io.h"
#include "util/json.h"

enum {
	PENDING_MAX = 256, /* questions that the outside has yet to answer */
	TRIES_MAX = 4,
	TRY_MS = 2500,
	LISTEN_MAX = DNS_TCP_LISTENERS,
	BATCH = 64, /* messages of one socket before the others have their turn */
	BACKLOG = 16,
};

struct listener {
	int fd;
	struct zone *zone;
};

struct pending {
	int fd; /* -1: this place is free */
	struct listener *from;
	struct sockaddr_in client;
	struct dns_question q; /* with the client's id */
	uint16_t id;           /* of our question to the outside */
	uint8_t query[DNS_UDP_MAX];
	size_t len;
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
	json_array_foreach(json_object_get(j, "listen"), i, addr)
	{
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
	*ret = d; /* lives as long as the holder */
	if (dns_tcp_new(h, &d->tcp, e) < 0)
		return -1;
	json_array_foreach(list, i, one) if (start_zone(d, one, e) < 0) return -1;
	return 0;
}

/* ---- asking the outside ---- */

static void send_back(const struct pending *p, struct bytes data)
{
	/* A guest that does not hear it will ask again. */
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
	if (dns_make_answer(
		    (struct bytes){p->query, p->len}, &p->q, rcode, 0, NULL, &out, &ignored) == 0)
		send_back(p, buf_bytes(&out));
}

/* Every question goes from a new port, under a new number: nobody can guess both. */
static bool ask_next(struct pending *p)
{
	struct sockaddr_storage servers[DNS_SERVERS_MAX];
	unsigned n = dns_servers(servers);
	const struct sockaddr_storage *to;

	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
	if (n == 0 || p->tries >= TRIES_MAX)
		return false;
	to = &servers[p->tries++ % n];
	p->fd = socket(to->ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (p->fd < 0 || !dns_new_id(p->query, &p->id))
		return false;
	p->deadline = now_ns() + (int64_t)TRY_MS * 1000000;
	/* Where it cannot be sent the deadline tries the next server. */
	if (connect(p->fd, (const struct sockaddr *)to, sizeof(*to)) == 0)
		(void)!send(p->fd, p->query, p->len, MSG_NOSIGNAL);
	return true;
}

static void ask_outside(struct dns *d, struct listener *from, const struct sockaddr_in *client,
	struct bytes query, const struct dns_question *q)
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
	/* Never more than is left for the others: no vnet can keep them from asking. */
	if (mine >= room)
		return; /* it will ask again */
	*p = (struct pending){.fd = -1, .from = from, .client = *client, .q = *q, .len = query.len};
	memcpy(p->query, query.p, query.len);
	if (!ask_next(p))
		give_up(p, DNS_SERVFAIL);
}

static void take_answer(struct dns *d, struct pending *p)
{
	uint8_t data[DNS_UDP_MAX];
	struct dns_question asked = p->q;
	struct dns_answer a;
	struct err ignored;
	ssize_t n = recv(p->fd, data, sizeof(data), 0);

	if (n < 0 && errno == EAGAIN)
		return;
	asked.id = p->id;
	if (n < 0) { /* nobody there: the next one */
		if (!ask_next(p))
			give_up(p, DNS_SERVFAIL);
		return;
	}
	if (dns_parse_answer((struct bytes){data, (size_t)n}, &asked, &a, &ignored) < 0)
		return; /* not ours, or broken: the deadline decides */
	if (!dns_admit(d->h, p->from->zone, p->q.name, &a)) {
		give_up(p, DNS_REFUSED);
		return;
	}
	dns_set_id(data, p->q.id);
	send_back(p, (struct bytes){data, (size_t)n});
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
	struct bytes query = {data, n > 0 ? (size_t)n : 0};
	struct pending p = {.from = l};
	enum zone_verdict verdict;
	struct dns_question q;
	struct err ignored;

	if (n < 0)
		return false;
	if ((size_t)n > sizeof(data) || dns_parse_query(query, &q, &ignored) < 0)
		return true; /* not worth an answer */
	if (zone_answer(l->zone, query, &q, &verdict, &out, &ignored) < 0)
		return true;
	if (verdict == ZONE_ASK_OUTSIDE) {
		ask_outside(d, l, &client, query, &q);
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
		else if (now_ns() >= p->deadline && !ask_next(p))
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
