#include "net/dns/server/asking.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/dns/asks.h"
#include "util/auto.h"
#include "util/thread/op.h"

/*
 * Seconds. An address is opened again only if less than OPEN_AGAIN, or less than the TTL, is left:
 * a guest may ask very often, and the kernel keeps what each opening replaces for a while.
 */
enum { OPEN_AGAIN = 300 };
/* Whoever is asked answers at once, unless somebody has stopped it. The holder may be busy. */
enum { ANSWER_MS = 1000 };

struct reply {
	struct ask_opened said; /* of an answer about a socket, only the number */
	int fd;                 /* -1: none came with it */
};

/* Takes one message, if there is one. */
static bool take_reply(int sock, struct reply *ret)
{
	char control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
	struct iovec iov = {&ret->said, sizeof(ret->said)};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = CMSG_LEN(sizeof(int))}; /* the kernel drops further fds */
	const struct cmsghdr *c;

	*ret = (struct reply){.fd = -1};
	if (recvmsg(sock, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) <= 0)
		return false;
	c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(&ret->fd, CMSG_DATA(c), sizeof(ret->fd));
	return true;
}

/* False: there was no answer in time. */
static bool ask(int sock, uint32_t number, const void *p, size_t n, struct reply *ret)
{
	int64_t deadline = now_ns() + (int64_t)ANSWER_MS * 1000000, left;

	if (send(sock, p, n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)n)
		return false;
	while ((left = deadline - now_ns()) > 0) {
		struct pollfd answer = {.fd = sock, .events = POLLIN};

		if (poll(&answer, 1, (int)(left / 1000000) + 1) < 0 || answer.revents & ~POLLIN)
			return false;
		if (!take_reply(sock, ret))
			continue;
		if (ret->said.number == number)
			return true;
		if (ret->fd >= 0)
			close(ret->fd); /* an answer that came too late */
	}
	return false;
}

int asking_socket(struct dns_server *s, bool stream, unsigned attempt)
{
	struct ask_socket one = {.number = ++s->number, .stream = stream, .attempt = attempt};
	struct reply reply;

	if (s->outside < 0 || !ask(s->outside, one.number, &one, sizeof(one), &reply))
		return ASKING_NOBODY;
	return reply.fd < 0 ? ASKING_NEXT : reply.fd;
}

int dns_new_query(const struct dns_question *q, uint16_t *ret_id, struct buf *ret, struct err *e)
{
	if (getrandom(ret_id, sizeof(*ret_id), 0) != sizeof(*ret_id))
		return err_sys(e, errno, "getrandom");
	return dns_make_query(q, *ret_id, ret, e);
}

static bool is_among(uint32_t addr, const uint32_t *addrs, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (addrs[i] == addr)
			return true;
	return false;
}

/* The addresses to be opened, and then all that are to be judged. */
static void list_addresses(
	const struct zone *z, const struct dns_answer *a, int64_t valid, struct ask_open *one)
{
	for (unsigned i = 0; z->set && i < a->n_named; i++)
		if (!zone_is_open(z, a->named[i], valid) &&
			!is_among(a->named[i], one->addrs, one->n_open))
			one->addrs[one->n_open++] = a->named[i];
	one->n = one->n_open;
	for (unsigned i = 0; i < a->n_addrs; i++)
		if (!is_among(a->addrs[i], one->addrs, one->n_open))
			one->addrs[one->n++] = a->addrs[i];
}

static uint32_t within(uint32_t ttl, uint32_t least)
{
	return ttl < least ? least : ttl > ASK_OPEN_MAX ? ASK_OPEN_MAX : ttl;
}

bool asking_admit(
	struct dns_server *s, struct zone *z, const char *name, const struct dns_answer *a)
{
	int64_t now = now_ns() / 1000000000;
	struct ask_open one = {.number = ++s->number,
		.zone = (uint32_t)(z - s->zones),
		.seconds = within(a->ttl, ASK_OPEN_MIN)};
	struct reply reply = {.said.verdict = ASK_FAILED};

	list_addresses(z, a, now + within(a->ttl, OPEN_AGAIN), &one);
	if (!one.n)
		return true;
	if (!ask(s->holder, one.number, &one, ask_open_size(&one), &reply))
		reply.said.verdict = ASK_FAILED; /* it may have one that answers another question */
	if (reply.said.verdict != ASK_DONE) {
		refusals_add(z->refusals, name,
			reply.said.verdict == ASK_FORBIDDEN ? REFUSED_ADDRESS : REFUSED_UNOPENED);
		return false;
	}
	for (unsigned i = 0; i < one.n_open; i++)
		zone_opened(z, one.addrs[i], now + one.seconds);
	return true;
}
