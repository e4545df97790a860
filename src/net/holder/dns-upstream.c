#include "net/holder/dns-upstream.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sys/random.h>

#include "net/holder/egress.h"
#include "net/plan/set-message.h"
#include "util/auto.h"

/*
 * Seconds. An address stays open for OPEN_MIN to OPEN_MAX, by its answer's TTL. It is opened again
 * only if less than OPEN_AGAIN, or less than the TTL, is left: a guest may ask very often, and the
 * kernel keeps what each opening replaces for a while.
 */
enum { OPEN_MIN = 600, OPEN_AGAIN = 300, OPEN_MAX = 86400 };
/* The process outside answers at once, unless somebody has stopped it. */
enum { ANSWER_MS = 1000 };
static_assert(
	(int)DNS_ADDRS_MAX <= SET_MESSAGE_ADDRS, "the addresses of an answer are opened at once");

unsigned dns_servers(const struct holder *h, struct sockaddr_storage servers[DNS_SERVERS_MAX])
{
	const size_t size = DNS_SERVERS_MAX * sizeof(servers[0]);
	struct pollfd answer = {.fd = h->outside, .events = POLLIN};
	ssize_t n;

	while (recv(h->outside, servers, size, MSG_DONTWAIT) > 0)
		; /* an answer that came too late */
	if (send(h->outside, "?", 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1 ||
		poll(&answer, 1, ANSWER_MS) <= 0)
		return 0;
	n = recv(h->outside, servers, size, MSG_DONTWAIT);
	return n <= 0 ? 0 : (unsigned)((size_t)n / sizeof(servers[0]));
}

int dns_new_query(const struct dns_question *q, uint16_t *ret_id, struct buf *ret, struct err *e)
{
	if (getrandom(ret_id, sizeof(*ret_id), 0) != sizeof(*ret_id))
		return err_sys(e, errno, "getrandom");
	return dns_make_query(q, *ret_id, ret, e);
}

static bool is_host(void *arg, uint32_t addr)
{
	return hostaddr_has(arg, addr);
}

static bool is_among(uint32_t addr, const uint32_t *addrs, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (addrs[i] == addr)
			return true;
	return false;
}

bool dns_admit(struct holder *h, struct zone *z, const char *name, const struct dns_answer *a)
{
	uint32_t seconds = a->ttl < OPEN_MIN ? OPEN_MIN : a->ttl > OPEN_MAX ? OPEN_MAX : a->ttl;
	uint32_t valid = a->ttl < OPEN_AGAIN ? OPEN_AGAIN : a->ttl > OPEN_MAX ? OPEN_MAX : a->ttl;
	int64_t now = now_ns() / 1000000000;
	uint32_t closed[ARRAY_LEN(a->named)];
	unsigned n = 0;
	struct err e;

	if (!zone_accepts(z, a, is_host, &h->hosts)) {
		zone_refuse(z, name, "leads to a forbidden address");
		return false;
	}
	for (unsigned i = 0; z->set && i < a->n_named; i++)
		if (!zone_is_open(z, a->named[i], now + valid) && !is_among(a->named[i], closed, n))
			closed[n++] = a->named[i];
	if (!n)
		return true;
	if (egress_open_addresses(h, z->set, closed, n, seconds, &e) < 0) {
		zone_refuse(z, name, "could not be opened");
		return false;
	}
	for (unsigned i = 0; i < n; i++)
		zone_opened(z, closed[i], now + seconds);
	return true;
}
