/*
 * The holder opens the sockets, since they belong to the sandbox's network namespace; we wait. A
 * question by ARP goes out by the tap itself and its answer is read there: neither rules nor VLANs
 * are in the way, and no other VM can answer.
 */
#include "net/reach.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/plan/arp.h"
#include "net/report.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/system/io.h"

#define LEASES_TEXT_MAX (32u << 20)
#define ASK_AGAIN       0.25 /* seconds */
#define CONNECT_SECONDS 2.0
enum { FRAMES_AT_ONCE = 64 };

/* One NIC of the VM that is to answer. */
struct nic_seen {
	const struct net_nic *nic;
	int fd;               /* at its tap */
	struct mac_addr from; /* who asks */
	uint32_t address;     /* 0: not known yet */
	bool answered;
};

struct seen {
	struct nic_seen nics[SPEC_NICS_MAX];
	size_t n;
	bool all; /* each must answer; otherwise one is enough */
};

static void seen_close(struct seen *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->nics[i].fd >= 0)
			close(s->nics[i].fd);
}

/* Chooses the NICs that are to answer: those with an address of their own, else those that ask for
 * one. */
static void seen_choose(const struct net_plan *p, size_t vm, struct seen *ret)
{
	*ret = (struct seen){0};
	for (size_t i = 0; i < p->n_nics; i++)
		ret->all |= p->nics[i].vm == vm && p->nics[i].ipv4;
	for (size_t i = 0; i < p->n_nics; i++) {
		const struct net_nic *n = &p->nics[i];

		if (n->vm == vm && (ret->all ? n->ipv4 != 0 : p->vnets[n->vnet].dhcp))
			ret->nics[ret->n++] =
				(struct nic_seen){.nic = n, .fd = -1, .address = n->ipv4};
	}
}

bool net_is_addressed(const struct net *net, size_t vm)
{
	struct seen s;

	seen_choose(net_plan(net), vm, &s);
	return s.n > 0;
}

/* Finds the addresses that DHCP gave meanwhile. */
static int learn_leases(struct net *net, const struct op *op, struct seen *s, struct err *e)
{
	auto_json json_t *leases = NULL;
	auto_buf struct buf text = {0};
	auto_fd int fd = -1;
	bool known = true;

	for (size_t i = 0; i < s->n; i++)
		known &= s->nics[i].address != 0;
	if (known)
		return 0;
	if (net_request(net, op, "leases", json_object(), NULL, &fd, e) < 0 ||
		file_read_all(fd, LEASES_TEXT_MAX, &text, e) < 0 ||
		json_parse_object(buf_bytes(&text), &leases, e) < 0)
		return -1;
	for (size_t i = 0; i < s->n; i++)
		if (!s->nics[i].address)
			s->nics[i].address = report_lease(
				net_plan(net), json_object_get(leases, "leases"), s->nics[i].nic);
	return 0;
}

static int open_tap_socket(struct net *net, const struct op *op, struct nic_seen *s, struct err *e)
{
	auto_json json_t *result = NULL;
	const char *mac;

	if (net_request(net, op, "ask",
		    json_pack("{s:s, s:s}", "tap", s->nic->tap, "bridge", s->nic->bridge), &result,
		    &s->fd, e) < 0)
		return -1;
	if (json_get(result, "ask", e, "{s:s}", "mac", &mac) < 0)
		return -1;
	return mac_parse(mac, &s->from, e);
}

static int ask(struct net *net, const struct op *op, struct nic_seen *s, struct err *e)
{
	uint8_t frame[ARP_FRAME];

	if (s->answered || !s->address)
		return 0;
	if (s->fd < 0 && open_tap_socket(net, op, s, e) < 0)
		return -1;
	arp_question(s->from, s->address, frame);
	/* A question that the NIC's full queue does not take is asked again. */
	(void)!send(s->fd, frame, sizeof(frame), MSG_DONTWAIT | MSG_NOSIGNAL);
	return 0;
}

/* Reads what came from the VM; frames that go to it pass here, too. */
static void read_answers(struct nic_seen *s)
{
	for (int i = 0; i < FRAMES_AT_ONCE; i++) {
		uint8_t frame[ARP_FRAME];
		struct sockaddr_ll from = {0};
		socklen_t len = sizeof(from);
		ssize_t n = recvfrom(
			s->fd, frame, sizeof(frame), MSG_DONTWAIT, (struct sockaddr *)&from, &len);

		if (n < 0)
			return;
		s->answered |= from.sll_pkttype != PACKET_OUTGOING &&
			       arp_claims((struct bytes){frame, (size_t)n}, s->address);
	}
}

/* Waits for a fd, for the VM's end (which fails), or for this long (which returns 0). */
static int wait_a_while(
	const struct op *op, struct pollfd *fds, unsigned n, double seconds, struct err *e)
{
	struct op slice = op_within(op, seconds);

	if (op_wait_fds(&slice, fds, n, e) < 0)
		return e->kind == ERR_TIMEOUT ? op_check(op, e) : -1;
	return fds[0].revents ? err_set(e, ERR_UNAVAILABLE, "the VM has ended") : 1;
}

static int wait_answers(const struct op *op, struct seen *s, int end_fd, struct err *e)
{
	struct pollfd fds[1 + SPEC_NICS_MAX] = {{.fd = end_fd, .events = POLLIN}};
	unsigned n = 1;
	int rc;

	for (size_t i = 0; i < s->n; i++)
		if (s->nics[i].fd >= 0)
			fds[n++] = (struct pollfd){.fd = s->nics[i].fd, .events = POLLIN};
	rc = wait_a_while(op, fds, n, ASK_AGAIN, e);
	for (size_t i = 0; rc > 0 && i < s->n; i++)
		if (s->nics[i].fd >= 0)
			read_answers(&s->nics[i]);
	return rc;
}

static bool is_seen(const struct seen *s)
{
	size_t answered = 0;

	for (size_t i = 0; i < s->n; i++)
		answered += s->nics[i].answered;
	return s->all ? answered == s->n : answered > 0;
}

int net_await_answer(struct net *net, const struct op *op, size_t vm, int end_fd, struct err *e)
{
	__attribute__((cleanup(seen_close))) struct seen s;

	seen_choose(net_plan(net), vm, &s);
	for (;;) {
		int rc;

		if (learn_leases(net, op, &s, e) < 0)
			return -1;
		for (size_t i = 0; i < s.n; i++)
			if (ask(net, op, &s.nics[i], e) < 0)
				return -1;
		rc = wait_answers(op, &s, end_fd, e);
		if (rc < 0)
			return -1;
		if (is_seen(&s))
			return 0;
		/* However much a guest sends, it is read so often and no oftener. */
		if (rc > 0 && op_pause(op, ASK_AGAIN, e) < 0)
			return -1;
	}
}

static bool says_no_way(const struct err *e)
{
	return e->sys == ENETUNREACH || e->sys == EHOSTUNREACH || e->sys == ENETDOWN ||
	       e->sys == EADDRNOTAVAIL;
}

/* Tries once: 1 if the VM takes the connection, 0 if it does not, or not yet. */
static int try_port(struct net *net, const struct op *op, uint32_t address, unsigned port,
	int end_fd, struct err *e)
{
	auto_fd int fd = -1;
	char text[IPV4_TEXT_MAX];
	struct pollfd fds[2] = {{.fd = end_fd, .events = POLLIN}};
	socklen_t len = sizeof(int);
	int failed = 0, rc;

	if (net_request(net, op, "dial",
		    json_pack("{s:s, s:i}", "address", ipv4_text(address, text), "port", (int)port),
		    NULL, &fd, e) < 0)
		return says_no_way(e) ? 0 : -1; /* not yet */
	fds[1] = (struct pollfd){.fd = fd, .events = POLLOUT};
	rc = wait_a_while(op, fds, 2, CONNECT_SECONDS, e);
	if (rc <= 0)
		return rc;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &len) < 0)
		return err_sys(e, errno, "connect");
	return failed == 0;
}

int net_await_port(
	struct net *net, const struct op *op, size_t vm, unsigned port, int end_fd, struct err *e)
{
	__attribute__((cleanup(seen_close))) struct seen s;

	seen_choose(net_plan(net), vm, &s);
	for (;;) {
		struct pollfd end = {.fd = end_fd, .events = POLLIN};
		int rc = 0;

		if (learn_leases(net, op, &s, e) < 0)
			return -1;
		for (size_t i = 0; i < s.n && rc == 0; i++)
			if (s.nics[i].address)
				rc = try_port(net, op, s.nics[i].address, port, end_fd, e);
		if (rc != 0)
			return rc < 0 ? -1 : 0;
		if (wait_a_while(op, &end, 1, ASK_AGAIN, e) < 0)
			return -1;
	}
}
