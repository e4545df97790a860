#include "net/out.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/route.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "net/netns.h"
#include "net/script.h"
#include "util/auto.h"
#include "util/json.h"

#define START_SECONDS 60
#define LOOK_EVERY    0.002
#define NETNS_AS      9 /* pasta's number for our namespace */
#define NETNS_DIR     "/mnt"
#define NETNS_FILE    NETNS_DIR "/net"

static const char *const nft[] = {"nft", "-f", "-", NULL};

/*
 * pasta takes a namespace by its path, and newer ones close every file they inherit. So the
 * namespace gets a path that only this process and its children see.
 */
static const char *name_netns(const struct holder *h)
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

static int bar_host(struct holder *h, struct err *e)
{
	struct op op = op_for_cleanup(START_SECONDS);
	auto_buf struct buf text = {0};

	if (hostaddr_script(&h->hosts, &text, e) < 0)
		return -1;
	return child_run(&op, h->netns, nft, buf_bytes(&text), NULL, e);
}

int out_follow_host(struct holder *h, struct err *e)
{
	if (!hostaddr_changed(&h->hosts))
		return 0;
	return hostaddr_scan(&h->hosts, e) < 0 ? -1 : bar_host(h, e);
}

/* ---- its interface ---- */

struct link {
	uint32_t us, it;
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
	struct ifreq ifr = {.ifr_name = NET_OUT_IF};

	put_addr(&ifr.ifr_addr, addr);
	return ioctl(fd, what, &ifr);
}

static int set_route(int fd, uint32_t gateway)
{
	char name[] = NET_OUT_IF;
	struct rtentry route = {.rt_flags = RTF_UP | RTF_GATEWAY, .rt_dev = name};

	put_addr(&route.rt_dst, 0);
	put_addr(&route.rt_genmask, 0);
	put_addr(&route.rt_gateway, gateway);
	return ioctl(fd, SIOCADDRT, &route) < 0 && errno != EEXIST ? -1 : 0;
}

/* By hand: one more program would take longer than all the rest of it. */
static int set_up_link(void *arg, struct err *e)
{
	struct link *link = arg;
	struct ifreq ifr = {.ifr_name = NET_OUT_IF, .ifr_flags = IFF_UP | IFF_RUNNING};
	auto_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	link->there = if_nametoindex(NET_OUT_IF) != 0;
	if (!link->there)
		return 0;
	if (fd < 0 || set_address(fd, SIOCSIFADDR, link->us) < 0 ||
		set_address(fd, SIOCSIFNETMASK, ipv4_mask(link->prefix)) < 0 ||
		ioctl(fd, SIOCSIFFLAGS, &ifr) < 0 || set_route(fd, link->it) < 0)
		return err_sys(e, errno, "the link to pasta");
	return 0;
}

static int read_link(json_t *out, struct link *ret, struct err *e)
{
	const char *us, *it;
	int prefix;

	if (json_get(out, "out", e, "{s:s, s:s, s:i}", "us", &us, "it", &it, "prefix", &prefix) <
			0 ||
		ipv4_parse(us, &ret->us, e) < 0 || ipv4_parse(it, &ret->it, e) < 0)
		return -1;
	ret->prefix = (unsigned)prefix;
	return 0;
}

/* The interface appears when pasta is ready. */
int out_set_up(struct holder *h, struct err *e)
{
	struct op op = op_for_cleanup(START_SECONDS);
	json_t *out = json_object_get(h->plan, "out");
	struct pollfd ended = {.events = POLLIN};
	struct link link = {0};

	if (!out)
		return 0;
	if (read_link(out, &link, e) < 0)
		return -1;
	ended.fd = h->children[h->out].proc.pidfd;
	for (;;) {
		if (netns_run(h->netns, set_up_link, &link, NULL, e) < 0)
			return -1;
		if (link.there)
			return 0;
		if (poll(&ended, 1, 0) > 0)
			return err_set(e, ERR_BACKEND, "pasta ended at once");
		if (op_pause(&op, LOOK_EVERY, e) < 0)
			return err_wrap(e, "pasta");
	}
}

/* ---- pasta ---- */

static int start_pasta(struct holder *h, json_t *out, struct err *e)
{
	struct child *c = &h->children[h->n_children];
	const char *us, *it, *path;
	int prefix;

	if (json_get(out, "out", e, "{s:s, s:s, s:i}", "us", &us, "it", &it, "prefix", &prefix) < 0)
		return -1;
	if (h->n_children == HOLDER_CHILDREN_MAX)
		return err_set(e, ERR_INTERNAL, "too many programs");
	path = name_netns(h);
	*c = (struct child){.what = "pasta",
		.netns = -1,
		.log_fd = h->log[1],
		.proc = PROC_NONE,
		.fd = {h->netns, NETNS_AS}};
	strv_add_all(&c->argv, "pasta", "--foreground", "--quiet", "--ipv4-only", "--no-map-gw",
		"--no-dhcp", "--no-dhcpv6", "--no-ndp", "--no-ra", "--tcp-ports", "none",
		"--udp-ports", "none", "--tcp-ns", "none", "--udp-ns", "none", "--ns-ifname",
		NET_OUT_IF, "--address", us, "--gateway", it, "--netns-only", "--netns", NULL);
	strv_add(&c->argv, path ? path : "/proc/self/fd/9");
	strv_add(&c->argv, "--netmask");
	strv_addf(&c->argv, "%d", prefix);
	if (strv_check(&c->argv, e) < 0 || child_start(c, e) < 0)
		return -1;
	h->out = (int)h->n_children++;
	return 0;
}

int out_look(struct holder *h, struct err *e)
{
	return json_object_get(h->plan, "out") ? hostaddr_open(&h->hosts, e) : 0;
}

int out_start(struct holder *h, struct err *e)
{
	json_t *out = json_object_get(h->plan, "out");

	return out ? start_pasta(h, out, e) : 0;
}

/* Added, removed and added again in one transaction: the only way to begin its time anew. */
int out_open(struct holder *h, const char *set, const uint32_t *addrs, unsigned n, uint32_t seconds,
	struct err *e)
{
	struct op op = op_for_cleanup(START_SECONDS);
	auto_buf struct buf text = {0};

	for (unsigned i = 0; i < n; i++) {
		char addr[IPV4_TEXT_MAX];

		ipv4_text(addrs[i], addr);
		if (buf_printf(&text, e,
			    "add element " NET_RULES_TABLE " %s { %s }\n"
			    "delete element " NET_RULES_TABLE " %s { %s }\n"
			    "add element " NET_RULES_TABLE " %s { %s timeout %us }\n",
			    set, addr, set, addr, set, addr, seconds) < 0)
			return -1;
	}
	return child_run(&op, h->netns, nft, buf_bytes(&text), NULL, e);
}
