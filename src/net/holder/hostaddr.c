#include "net/holder/hostaddr.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/plan/nftables.h"
#include "util/auto.h"

enum { NETS_MAX = 65536, PIECE = 64 * 1024, SCANS_MAX = 50, CHANGED = 2 };

int hostaddr_open(struct hostaddr *h, struct err *e)
{
	struct sockaddr_nl addr = {
		.nl_family = AF_NETLINK, .nl_groups = RTMGRP_IPV4_ROUTE | RTMGRP_IPV4_IFADDR};

	h->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (h->fd < 0 || bind(h->fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		return err_sys(e, errno, "netlink");
	return hostaddr_scan(h, e);
}

static int add_net(struct hostaddr *h, struct ipv4_net net, struct err *e)
{
	if (h->n == NETS_MAX)
		return err_set(e, ERR_LIMIT, "this host has more than %d addresses", NETS_MAX);
	if (h->n == h->cap) {
		size_t cap = h->cap ? 2 * h->cap : 64;
		struct ipv4_net *more = realloc(h->nets, cap * sizeof(*more));

		if (!more)
			return err_oom(e);
		h->nets = more;
		h->cap = cap;
	}
	h->nets[h->n++] = net;
	return 0;
}

static int take_route(struct hostaddr *h, const struct nlmsghdr *m, struct err *e)
{
	const struct rtmsg *r = NLMSG_DATA(m);
	int left = (int)RTM_PAYLOAD(m);
	uint32_t table = r->rtm_table;
	struct ipv4_net net = {.prefix = r->rtm_dst_len};

	for (const struct rtattr *a = RTM_RTA(r); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		if (a->rta_type == RTA_DST && RTA_PAYLOAD(a) == 4) {
			const uint8_t *p = RTA_DATA(a);

			net.addr = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
				   (uint32_t)p[2] << 8 | p[3];
		}
		if (a->rta_type == RTA_TABLE && RTA_PAYLOAD(a) == 4)
			memcpy(&table, RTA_DATA(a), sizeof(table));
	}
	if (r->rtm_family != AF_INET || table != RT_TABLE_LOCAL || net.prefix > 32)
		return 0;
	if (r->rtm_type != RTN_LOCAL && r->rtm_type != RTN_BROADCAST && r->rtm_type != RTN_ANYCAST)
		return 0;
	return add_net(h, net, e);
}

/* Returns 1 at the end of the table, CHANGED if the table changed while it was read. */
static int take_piece(struct hostaddr *h, const void *piece, ssize_t n, struct err *e)
{
	unsigned left = (unsigned)n;

	for (const struct nlmsghdr *m = piece; NLMSG_OK(m, left); m = NLMSG_NEXT(m, left)) {
		if (m->nlmsg_flags & NLM_F_DUMP_INTR)
			return CHANGED;
		if (m->nlmsg_type == NLMSG_DONE)
			return 1;
		if (m->nlmsg_type == NLMSG_ERROR)
			return err_set(e, ERR_INTERNAL, "cannot list this host's addresses");
		if (m->nlmsg_type == RTM_NEWROUTE && take_route(h, m, e) < 0)
			return -1;
	}
	return 0;
}

static int scan_once(struct hostaddr *h, struct err *e)
{
	struct {
		struct nlmsghdr head;
		struct rtmsg body;
	} ask = {.head = {.nlmsg_len = sizeof(ask),
			 .nlmsg_type = RTM_GETROUTE,
			 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		.body = {.rtm_family = AF_INET, .rtm_table = RT_TABLE_LOCAL}};
	auto_fd int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	auto_free char *piece = malloc(PIECE);
	int end = 0;

	if (!piece)
		return err_oom(e);
	if (fd < 0 || send(fd, &ask, sizeof(ask), 0) < 0)
		return err_sys(e, errno, "netlink");
	h->n = 0;
	while (!end) {
		ssize_t n = recv(fd, piece, PIECE, 0);

		if (n < 0)
			return err_sys(e, errno, "netlink");
		end = take_piece(h, piece, n, e);
	}
	return end;
}

int hostaddr_scan(struct hostaddr *h, struct err *e)
{
	int got = CHANGED;

	for (int i = 0; i < SCANS_MAX && got == CHANGED; i++)
		got = scan_once(h, e);
	if (got == CHANGED)
		return err_set(e, ERR_INTERNAL, "this host's addresses do not stop changing");
	return got < 0 ? -1 : 0;
}

int hostaddr_changed(struct hostaddr *h)
{
	char piece[8192];
	int changed = 0;
	ssize_t n;

	/* ENOBUFS: notifications were lost, so something changed. */
	while ((n = recv(h->fd, piece, sizeof(piece), 0)) > 0 || (n < 0 && errno == ENOBUFS))
		changed = 1;
	return changed;
}

bool hostaddr_has(const struct hostaddr *h, uint32_t addr)
{
	for (size_t i = 0; i < h->n; i++)
		if (ipv4_net_has(h->nets[i], addr))
			return true;
	return false;
}

int hostaddr_script(const struct hostaddr *h, struct buf *ret, struct err *e)
{
	if (buf_add_str(ret, "flush set " NFTABLES_TABLE " host\n", e) < 0)
		return -1;
	for (size_t i = 0; i < h->n; i++) {
		char text[NET_TEXT_MAX];

		if (buf_printf(ret, e, "add element " NFTABLES_TABLE " host { %s }\n",
			    ipv4_net_text(h->nets[i], text)) < 0)
			return -1;
	}
	return 0;
}
