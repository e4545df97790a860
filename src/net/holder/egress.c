#include "net/holder/egress.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <net/route.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/holder/netns.h"
#include "net/plan/nftables.h"
#include "net/plan/set-message.h"
#include "util/auto.h"
#include "util/json.h"

#define START_SECONDS 60
#define POLL_SECONDS  0.002
#define NETNS_AS      9 /* pasta inherits the namespace under this number */
#define NETNS_DIR     "/tmp"
#define NETNS_FILE    NETNS_DIR "/net"
/* More than a cable carries, so that no packet is cut into fragments here: pasta cannot read them.
 */
#define EGRESS_MTU 65520

static const char *const nft[] = {"nft", "-f", "-", NULL};

/* pasta takes a namespace by its path, and newer versions close all inherited files. So this mounts
 * the namespace at a path that only this process and its children see. NULL: not possible. */
static const char *give_netns_path(const struct holder *h)
{
	char own[40];
	int fd;

	snprintf(own, sizeof(own), "/proc/self/fd/%d", h->netns);
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("moat", NETNS_DIR, "tmpfs", 0, "size=64k") < 0)
		return NULL;
	fd = open(NETNS_FILE, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		return NULL;
	close(fd);
	return mount(own, NETNS_FILE, NULL, MS_BIND, NULL) < 0 ? NULL : NETNS_FILE;
}

static int load_host_set(struct holder *h, struct err *e)
{
	struct op op = op_for_cleanup(START_SECONDS);
	auto_buf struct buf text = {0};

	if (hostaddr_script(&h->hosts, &text, e) < 0)
		return -1;
	return child_run(&op, h->netns, nft, buf_bytes(&text), NULL, e);
}

int egress_update_host(struct holder *h, struct err *e)
{
	if (!hostaddr_changed(&h->hosts))
		return 0;
	return hostaddr_scan(&h->hosts, e) < 0 ? -1 : load_host_set(h, e);
}

/* ---- pasta's interface ---- */

struct interface {
	uint32_t address, gateway;
	unsigned prefix;
	bool there;
};

static void put_addr(struct sockaddr *to, uint32_t addr)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(addr)};

	memcpy(to, &in, sizeof(in));
}

static int set_address(int fd, unsigned long what, uint32_t addr)
{
	struct ifreq ifr = {.ifr_name = NET_EGRESS_IF};

	put_addr(&ifr.ifr_addr, addr);
	return ioctl(fd, what, &ifr);
}

static int set_route(int fd, uint32_t gateway)
{
	char name[] = NET_EGRESS_IF;
	struct rtentry route = {.rt_flags = RTF_UP | RTF_GATEWAY, .rt_dev = name};

	put_addr(&route.rt_dst, 0);
	put_addr(&route.rt_genmask, 0);
	put_addr(&route.rt_gateway, gateway);
	return ioctl(fd, SIOCADDRT, &route) < 0 && errno != EEXIST ? -1 : 0;
}

/* Done with ioctls: starting `ip` would take longer than all the rest. */
static int set_up_interface(void *arg, struct err *e)
{
	struct interface *itf = arg;
	struct ifreq ifr = {.ifr_name = NET_EGRESS_IF, .ifr_flags = IFF_UP | IFF_RUNNING};
	struct ifreq mtu = {.ifr_name = NET_EGRESS_IF, .ifr_mtu = EGRESS_MTU};
	auto_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	itf->there = if_nametoindex(NET_EGRESS_IF) != 0;
	if (!itf->there)
		return 0;
	if (fd < 0 || ioctl(fd, SIOCSIFMTU, &mtu) < 0 ||
		set_address(fd, SIOCSIFADDR, itf->address) < 0 ||
		set_address(fd, SIOCSIFNETMASK, ipv4_mask(itf->prefix)) < 0 ||
		ioctl(fd, SIOCSIFFLAGS, &ifr) < 0 || set_route(fd, itf->gateway) < 0)
		return err_sys(e, errno, "the link to pasta");
	return 0;
}

static int read_interface(json_t *egress, struct interface *ret, struct err *e)
{
	const char *address, *gateway;
	int prefix;

	if (json_get(egress, "egress", e, "{s:s, s:s, s:i}", "address", &address, "gateway",
		    &gateway, "prefix", &prefix) < 0 ||
		ipv4_parse(address, &ret->address, e) < 0 ||
		ipv4_parse(gateway, &ret->gateway, e) < 0)
		return -1;
	ret->prefix = (unsigned)prefix;
	return 0;
}

/* Polls: the interface appears when pasta is ready, and nothing announces that. */
int egress_set_up_interface(struct holder *h, struct err *e)
{
	struct op op = op_for_cleanup(START_SECONDS);
	json_t *egress = json_object_get(h->plan, "egress");
	struct pollfd ended = {.events = POLLIN};
	struct interface itf = {0};

	if (!egress)
		return 0;
	if (read_interface(egress, &itf, e) < 0)
		return -1;
	ended.fd = h->children[h->pasta].proc.pidfd;
	for (;;) {
		if (netns_run(h->netns, set_up_interface, &itf, NULL, e) < 0)
			return -1;
		if (itf.there)
			return 0;
		if (poll(&ended, 1, 0) > 0)
			return err_set(e, ERR_BACKEND, "pasta ended at once");
		if (op_pause(&op, POLL_SECONDS, e) < 0)
			return err_wrap(e, "pasta");
	}
}

/* ---- pasta ---- */

static int start_pasta(struct holder *h, json_t *egress, struct err *e)
{
	struct child *c = &h->children[h->n_children];
	const char *address, *gateway, *path;
	int prefix;

	if (json_get(egress, "egress", e, "{s:s, s:s, s:i}", "address", &address, "gateway",
		    &gateway, "prefix", &prefix) < 0)
		return -1;
	if (h->n_children == HOLDER_CHILDREN_MAX)
		return err_set(e, ERR_INTERNAL, "too many programs");
	path = give_netns_path(h);
	*c = (struct child){.what = "pasta",
		.netns = -1,
		.log_fd = h->log[1],
		.proc = PROC_NONE,
		.fds = {{h->netns, NETNS_AS}},
		.n_fds = 1};
	strv_add_all(&c->argv, "pasta", "--foreground", "--quiet", "--ipv4-only", "--no-map-gw",
		"--no-dhcp", "--no-dhcpv6", "--no-ndp", "--no-ra", "--tcp-ports", "none",
		"--udp-ports", "none", "--tcp-ns", "none", "--udp-ns", "none", "--ns-ifname",
		NET_EGRESS_IF, "--address", address, "--gateway", gateway, "--netns-only",
		"--netns", NULL);
	strv_add(&c->argv, path ? path : "/proc/self/fd/9");
	strv_add(&c->argv, "--netmask");
	strv_addf(&c->argv, "%d", prefix);
	if (strv_check(&c->argv, e) < 0 || child_start(c, e) < 0)
		return -1;
	h->pasta = (int)h->n_children++;
	return 0;
}

/* ---- addresses of allowed names ---- */

static int connect_inside(void *arg, struct err *e)
{
	struct holder *h = arg;
	int on = 1;
	auto_fd int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);

	/* With CAP_ACK, an answer does not repeat the message that it is about. */
	if (fd < 0 || setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof(on)) < 0)
		return err_sys(e, errno, "netlink to nftables");
	h->nftables = take_fd(&fd);
	return 0;
}

/* The kernel has dealt with a message when send returns, so its answers are there: one for each
 * change, or the reason of a failure. */
static int take_answers(int fd, const char *set, struct err *e)
{
	struct nlmsghdr data[64]; /* answers come one at a time, and are shorter */
	unsigned changes = 0;
	int failed = 0;
	ssize_t n;

	while ((n = recv(fd, data, sizeof(data), MSG_DONTWAIT)) > 0) {
		unsigned left = (unsigned)n;

		for (struct nlmsghdr *m = data; NLMSG_OK(m, left); m = NLMSG_NEXT(m, left)) {
			const struct nlmsgerr *answer = NLMSG_DATA(m);

			if (m->nlmsg_type != NLMSG_ERROR)
				continue;
			changes += answer->error == 0;
			if (!failed)
				failed = -answer->error;
		}
	}
	if (failed || errno != EAGAIN)
		return err_sys(e, failed ? failed : errno, "set %s", set);
	return changes == SET_MESSAGE_CHANGES ? 0
					      : err_set(e, ERR_INTERNAL, "set %s: no answer", set);
}

int egress_open_addresses(struct holder *h, const char *set, const uint32_t *addrs, unsigned n,
	uint32_t seconds, struct err *e)
{
	auto_buf struct buf b = {0};

	if (set_message(set, addrs, n, seconds, &b, e) < 0)
		return -1;
	if (send(h->nftables, buf_data(&b), b.len, 0) < 0)
		return err_sys(e, errno, "set %s", set);
	return take_answers(h->nftables, set, e);
}

/* ---- starting ---- */

int egress_read_host(struct holder *h, struct err *e)
{
	return json_object_get(h->plan, "egress") ? hostaddr_open(&h->hosts, e) : 0;
}

int egress_start(struct holder *h, struct err *e)
{
	json_t *egress = json_object_get(h->plan, "egress");

	if (!egress)
		return 0;
	return netns_run(h->netns, connect_inside, h, NULL, e) < 0 ? -1 : start_pasta(h, egress, e);
}
