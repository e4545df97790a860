#include "net/dns.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/netns.h"
#include "net/out.h"
#include "net/zone.h"
#include "util/auto.h"
#include "util/io.h"
#include "util/json.h"

enum {
	PENDING_MAX = 128, /* questions that the outside has yet to answer */
	SERVERS_MAX = 3,   /* of the host's, as its own resolver would use */
	TRIES_MAX = 4,
	TRY_MS = 2500,
	LISTEN_MAX = 1100,
	BATCH = 64,     /* messages of one socket before the others have their turn */
	OPEN_MIN = 600, /* seconds that an address stays open at least */
	OPEN_MAX = 86400,
	DNS_PORT = 53,
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
	uint8_t query[DNS_MESSAGE_MAX];
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
};

/* ---- starting ---- */

struct bind_job {
	const char *addr;
	int fd;
};

static int bind_inside(void *arg, struct err *e)
{
	struct bind_job *job = arg;
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(DNS_PORT)};
	auto_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || inet_pton(AF_INET, job->addr, &at.sin_addr) != 1 ||
		bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		return err_sys(e, errno, "DNS on %s", job->addr);
	job->fd = take_fd(&fd);
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
		d->listeners[d->n_listeners++] = (struct listener){job.fd, z};
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
	json_array_foreach(list, i, one) if (start_zone(d, one, e) < 0) return -1;
	return 0;
}

/* ---- asking the outside ---- */

/* The host's resolvers, read each time: they change when a laptop moves. */
static unsigned read_servers(struct sockaddr_storage servers[SERVERS_MAX])
{
	auto_file FILE *f = fopen("/etc/resolv.conf", "re");
	char line[256], text[128];
	unsigned n = 0;

	while (f && n < SERVERS_MAX && fgets(line, sizeof(line), f)) {
		struct sockaddr_in *v4 = (struct sockaddr_in *)&servers[n];
		struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&servers[n];

		if (sscanf(line, " nameserver %127s", text) != 1)
			continue;
		memset(&servers[n], 0, sizeof(servers[n]));
		if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
			v4->sin_family = AF_INET;
			v4->sin_port = htons(DNS_PORT);
			n++;
		} else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
			v6->sin6_family = AF_INET6;
			v6->sin6_port = htons(DNS_PORT);
			n++;
		}
	}
	return n;
}

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
	struct sockaddr_storage servers[SERVERS_MAX];
	unsigned n = read_servers(servers);
	const struct sockaddr_storage *to;

	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
	if (n == 0 || p->tries >= TRIES_MAX)
		return false;
	to = &servers[p->tries++ % n];
	p->fd = socket(to->ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (p->fd < 0 || getrandom(&p->id, sizeof(p->id), 0) != sizeof(p->id))
		return false;
	p->query[0] = (uint8_t)(p->id >> 8);
	p->query[1] = (uint8_t)p->id;
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

	for (unsigned i = 0; i < PENDING_MAX && !p; i++)
		if (d->pending[i].fd < 0)
			p = &d->pending[i];
	if (!p)
		return; /* it will ask again */
	*p = (struct pending){.fd = -1, .from = from, .client = *client, .q = *q, .len = query.len};
	memcpy(p->query, query.p, query.len);
	if (!ask_next(p))
		give_up(p, DNS_SERVFAIL);
}

static bool is_host(void *arg, uint32_t addr)
{
	return hostaddr_has(arg, addr);
}

/* What a name leads to is opened before the guest learns of it. */
static bool open_addresses(struct dns *d, const struct pending *p, const struct dns_answer *a)
{
	uint32_t seconds = a->ttl < OPEN_MIN ? OPEN_MIN : a->ttl > OPEN_MAX ? OPEN_MAX : a->ttl;
	struct zone *z = p->from->zone;
	struct err e;

	if (!zone_accepts(z, a, is_host, &d->h->hosts)) {
		zone_refuse(z, p->q.name, "leads to a forbidden address");
		return false;
	}
	if (!z->set || !a->n_addrs)
		return true;
	if (out_open(d->h, z->set, a->addrs, a->n_addrs, seconds, &e) == 0)
		return true;
	zone_refuse(z, p->q.name, "could not be opened");
	return false;
}

static void take_answer(struct dns *d, struct pending *p)
{
	uint8_t data[DNS_MESSAGE_MAX];
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
	if (!open_addresses(d, p, &a)) {
		give_up(p, DNS_REFUSED);
		return;
	}
	data[0] = (uint8_t)(p->q.id >> 8);
	data[1] = (uint8_t)p->q.id;
	send_back(p, (struct bytes){data, (size_t)n});
	close(p->fd);
	p->fd = -1;
}

/* ---- serving the guests ---- */

static bool take_query(struct dns *d, struct listener *l)
{
	uint8_t data[DNS_MESSAGE_MAX];
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
	return n;
}

int dns_timeout(const struct dns *d)
{
	int64_t soonest = INT64_MAX, left;

	for (unsigned i = 0; i < PENDING_MAX; i++)
		if (d->pending[i].fd >= 0 && d->pending[i].deadline < soonest)
			soonest = d->pending[i].deadline;
	if (soonest == INT64_MAX)
		return -1;
	left = soonest - now_ns();
	return left <= 0 ? 0 : (int)(left / 1000000) + 1;
}

void dns_serve(struct dns *d, const struct pollfd *fds, unsigned n)
{
	for (unsigned i = 0; i < PENDING_MAX; i++) {
		struct pending *p = &d->pending[i];

		if (p->fd < 0)
			continue;
		if (d->n_listeners + i < n && fds[d->n_listeners + i].revents)
			take_answer(d, p);
		else if (now_ns() >= p->deadline && !ask_next(p))
			give_up(p, DNS_SERVFAIL);
	}
	for (unsigned i = 0; i < d->n_listeners && i < n; i++)
		for (unsigned k = 0; fds[i].revents && k < BATCH; k++)
			if (!take_query(d, &d->listeners[i]))
				break;
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
