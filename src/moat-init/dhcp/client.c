/*
 * How it works: each NIC that is plugged in asks for an address, and asks again, ever later, until
 * it gets one. Half the time of a lease it asks its server to go on, later any server, and at the
 * end it begins anew. A NIC that is plugged in again, or has another MAC, begins anew: that is what
 * happens to a copy of a running system when it gets its identity. One of the NICs has the default
 * route: the first that was told a router.
 */
#include "moat-init/dhcp/client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "moat-init/common/files.h"
#include "moat-init/dhcp/nic.h"
#include "moat-init/dhcp/packet.h"
#include "util/auto.h"

enum {
	/* Until a question is asked for the second time; doubles. What is sent in the moment in
	 * which a NIC is plugged in may be lost. */
	AGAIN_MS = 50,
	AGAIN_MAX_MS = 16000,
	LEASE_MIN = 30, /* seconds: a server must not keep us busy */
	LEASE_MAX = 7 * 24 * 3600,
	LEASE_UNTOLD = 3600,
};
#define RESOLV "/etc/resolv.conf"

enum stage { UNPLUGGED, DISCOVERING, REQUESTING, BOUND, RENEWING };

struct nic {
	struct nic_state is;
	bool seen; /* it was there at the last look */
	enum stage stage;
	int sock;
	uint32_t xid;
	int64_t next;  /* when to ask again, or to renew */
	int64_t again; /* ms until after that */
	int64_t rebind, expires;
	struct dhcp_answer lease; /* address 0: it has none */
};

struct client {
	int sock, link, told_fd;
	struct nic nics[NICS_MAX];
	unsigned n;
	char route_nic[IFNAMSIZ]; /* of the default route; "": there is none */
	uint32_t router;
	char *resolv; /* what was written last */
	unsigned told;
};

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void ask(struct nic *n, const struct dhcp_ask *what, uint32_t to)
{
	struct sockaddr_in at = {
		.sin_family = AF_INET, .sin_port = htons(SERVER_PORT), .sin_addr.s_addr = to};
	uint8_t packet[DHCP_PACKET_MAX];
	size_t len = dhcp_write(what, packet);

	if (to == INADDR_BROADCAST && nic_broadcast(n->is.index, packet, len) == 0)
		return;
	/* A message that is lost is sent again. */
	if (sendto(n->sock, packet, len, 0, (struct sockaddr *)&at, sizeof(at)) < 0)
		return;
}

static void discover(struct nic *n)
{
	struct dhcp_ask what = {.type = DHCP_DISCOVER, .xid = n->xid};

	memcpy(what.mac, n->is.mac, sizeof(what.mac));
	ask(n, &what, INADDR_BROADCAST);
}

static void request(struct nic *n)
{
	struct dhcp_ask what = {.type = DHCP_REQUEST,
		.xid = n->xid,
		.requested = n->lease.address,
		.server = n->lease.server};

	memcpy(what.mac, n->is.mac, sizeof(what.mac));
	ask(n, &what, INADDR_BROADCAST);
}

static void renew(struct nic *n)
{
	struct dhcp_ask what = {.type = DHCP_REQUEST, .xid = n->xid, .client = n->lease.address};

	memcpy(what.mac, n->is.mac, sizeof(what.mac));
	ask(n, &what, now_ms() < n->rebind && n->lease.server ? n->lease.server : INADDR_BROADCAST);
}

static void begin(struct nic *n)
{
	n->stage = DISCOVERING;
	if (getrandom(&n->xid, sizeof(n->xid), GRND_NONBLOCK) < 0)
		n->xid = (uint32_t)now_ms();
	n->lease = (struct dhcp_answer){0};
	n->again = AGAIN_MS;
	n->next = now_ms() + n->again;
	discover(n);
}

/* ---- what follows from all leases together ---- */

static void set_route(struct client *c)
{
	const struct nic *best = NULL;

	for (unsigned i = 0; i < c->n; i++) {
		const struct nic *n = &c->nics[i];

		if (n->stage >= BOUND && n->lease.router && (!best || n->is.index < best->is.index))
			best = n;
	}
	if (best && c->router == best->lease.router && strcmp(c->route_nic, best->is.name) == 0)
		return;
	if (c->router)
		nic_default_route(c->sock, c->route_nic, c->router, false);
	c->router = 0;
	c->route_nic[0] = 0;
	if (!best)
		return;
	if (nic_default_route(c->sock, best->is.name, best->lease.router, true) != 0)
		return;
	c->router = best->lease.router;
	memcpy(c->route_nic, best->is.name, sizeof(c->route_nic));
}

static void write_resolv(struct client *c)
{
	char text[2048], shown[INET_ADDRSTRLEN];
	size_t len = 0;
	FILE *f;

	text[0] = 0;
	for (unsigned i = 0; i < c->n; i++) {
		const struct nic *n = &c->nics[i];

		for (size_t k = 0; n->stage >= BOUND && k < n->lease.n_dns; k++) {
			char line[64];

			inet_ntop(AF_INET, &n->lease.dns[k], shown, sizeof(shown));
			snprintf(line, sizeof(line), "nameserver %s\n", shown);
			if (!strstr(text, line) && len + strlen(line) < sizeof(text))
				len += (size_t)snprintf(text + len, sizeof(text) - len, "%s", line);
		}
	}
	if (c->resolv && strcmp(c->resolv, text) == 0)
		return;
	/* The image's may be a link to where nobody will write. */
	unlink(RESOLV);
	f = fopen(RESOLV, "we");
	if (f) {
		fputs(text, f);
		fclose(f);
		chmod(RESOLV, 0644);
	}
	free(c->resolv);
	c->resolv = strdup(text);
}

static void tell(struct client *c)
{
	unsigned n = 0;
	uint8_t byte;

	for (unsigned i = 0; i < c->n; i++)
		n += c->nics[i].stage >= BOUND;
	if (n == c->told)
		return;
	byte = (uint8_t)n;
	if (write(c->told_fd, &byte, 1) == 1)
		c->told = n;
}

static void settle(struct client *c)
{
	set_route(c);
	write_resolv(c);
	tell(c);
}

/* ---- one NIC ---- */

static void drop_address(struct client *c, struct nic *n)
{
	if (n->stage >= BOUND)
		nic_address(c->sock, n->is.name, 0, 0);
	n->stage = UNPLUGGED;
	n->lease = (struct dhcp_answer){0};
}

static uint32_t within(uint32_t seconds, uint32_t least, uint32_t most)
{
	return seconds < least ? least : seconds > most ? most : seconds;
}

static void bind_lease(struct client *c, struct nic *n, const struct dhcp_answer *a)
{
	uint32_t lease = within(a->lease ? a->lease : LEASE_UNTOLD, LEASE_MIN, LEASE_MAX);
	uint32_t half = a->renew ? within(a->renew, LEASE_MIN / 2, lease) : lease / 2;
	uint32_t late = a->rebind ? within(a->rebind, half, lease) : lease / 8 * 7;
	bool same =
		n->stage == RENEWING && a->address == n->lease.address && a->mask == n->lease.mask;
	int64_t now = now_ms();

	n->lease = *a;
	n->next = now + half * 1000LL;
	n->rebind = now + late * 1000LL;
	n->expires = now + lease * 1000LL;
	n->stage = BOUND;
	/* An address that stays is left alone, and so is what somebody has made of it meanwhile. */
	if (!same && nic_address(c->sock, n->is.name, a->address, a->mask) != 0)
		say("%s: its address cannot be set: %s", n->is.name, strerror(errno));
}

static void answered(struct client *c, struct nic *n, const struct dhcp_answer *a)
{
	if (n->stage == DISCOVERING && a->type == DHCP_OFFER && a->address) {
		n->lease = *a;
		n->stage = REQUESTING;
		n->again = AGAIN_MS;
		n->next = now_ms() + n->again;
		request(n);
	} else if ((n->stage == REQUESTING || n->stage == RENEWING) && a->type == DHCP_ACK &&
		   a->address && a->mask) {
		bind_lease(c, n, a);
	} else if ((n->stage == REQUESTING || n->stage == RENEWING) && a->type == DHCP_NAK) {
		drop_address(c, n);
		begin(n);
	}
}

static void receive(struct client *c, struct nic *n)
{
	uint8_t packet[DHCP_PACKET_MAX];
	struct dhcp_answer a;
	ssize_t len;

	while ((len = recv(n->sock, packet, sizeof(packet), 0)) >= 0)
		if (dhcp_read(packet, (size_t)len, n->xid, n->is.mac, &a))
			answered(c, n, &a);
}

static void timed_out(struct client *c, struct nic *n)
{
	int64_t now = now_ms();

	if (n->stage == RENEWING && now >= n->expires) {
		drop_address(c, n);
		begin(n);
		return;
	}
	if (n->stage == BOUND) {
		n->stage = RENEWING;
		n->again = AGAIN_MS;
	}
	n->next = now + n->again;
	n->again = n->again * 2 > AGAIN_MAX_MS ? AGAIN_MAX_MS : n->again * 2;
	if (n->stage == RENEWING)
		renew(n);
	else if (n->stage == REQUESTING && n->again < AGAIN_MAX_MS)
		request(n);
	else if (n->stage == REQUESTING)
		begin(n); /* who offered it is gone */
	else
		discover(n);
}

/* ---- all NICs ---- */

static struct nic *nic_of(struct client *c, const struct nic_state *s)
{
	for (unsigned i = 0; i < c->n; i++)
		if (strcmp(c->nics[i].is.name, s->name) == 0)
			return &c->nics[i];
	if (c->n == NICS_MAX)
		return NULL;
	c->nics[c->n] = (struct nic){.is = *s, .sock = -1};
	c->nics[c->n].is.plugged = false;
	nic_up(c->sock, s->name); /* once: whoever takes it down wants that */
	return &c->nics[c->n++];
}

static void changed(struct client *c, struct nic *n, const struct nic_state *s)
{
	bool other = memcmp(n->is.mac, s->mac, sizeof(s->mac)) != 0;
	bool restart = s->plugged && (!n->is.plugged || other);

	n->is = *s;
	n->seen = true;
	if (!s->plugged || restart)
		drop_address(c, n);
	if (!restart)
		return;
	if (n->sock < 0)
		n->sock = nic_socket(s->name);
	if (n->sock >= 0)
		begin(n);
}

static void look_at_all(struct client *c)
{
	struct nic_state states[NICS_MAX];
	unsigned n = nics_find(c->sock, states);

	for (unsigned i = 0; i < c->n; i++)
		c->nics[i].seen = false;
	for (unsigned i = 0; i < n; i++) {
		struct nic *nic = nic_of(c, &states[i]);

		if (nic)
			changed(c, nic, &states[i]);
	}
	for (unsigned i = 0; i < c->n;) {
		struct nic *nic = &c->nics[i];

		if (nic->seen) {
			i++;
			continue;
		}
		if (nic->sock >= 0)
			close(nic->sock);
		*nic = c->nics[--c->n];
	}
}

static int wait_ms(const struct client *c)
{
	int64_t now = now_ms(), first = INT64_MAX;

	for (unsigned i = 0; i < c->n; i++)
		if (c->nics[i].stage != UNPLUGGED && c->nics[i].next < first)
			first = c->nics[i].next;
	if (first == INT64_MAX)
		return -1;
	return first <= now ? 0 : first - now > 3600000 ? 3600000 : (int)(first - now);
}

_Noreturn void dhcp_run(int told_fd)
{
	static struct client c;
	char drain[4096];

	c.told_fd = told_fd;
	c.sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	c.link = nic_events();
	look_at_all(&c);
	for (;;) {
		struct pollfd p[NICS_MAX + 1] = {{.fd = c.link, .events = POLLIN}};
		unsigned n = c.n;
		int64_t now;

		settle(&c);
		for (unsigned i = 0; i < n; i++)
			p[i + 1] = (struct pollfd){.fd = c.nics[i].sock, .events = POLLIN};
		poll(p, n + 1, wait_ms(&c));
		for (unsigned i = 0; i < n; i++)
			if (p[i + 1].revents)
				receive(&c, &c.nics[i]);
		now = now_ms();
		for (unsigned i = 0; i < n; i++)
			if (c.nics[i].stage != UNPLUGGED && c.nics[i].next <= now)
				timed_out(&c, &c.nics[i]);
		if (p[0].revents) {
			while (recv(c.link, drain, sizeof(drain), 0) > 0)
				;
			look_at_all(&c);
		}
	}
}
