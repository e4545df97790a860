#include "net/out.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
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
static const char *const ip[] = {"ip", "-batch", "-", NULL};

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

static int find_interface(void *arg, struct err *e)
{
	(void)e;
	*(bool *)arg = if_nametoindex(NET_OUT_IF) != 0;
	return 0;
}

/* Its interface appears when pasta is ready; then it gets our address and the route. */
static int set_up(struct holder *h, struct err *e)
{
	struct op op = op_for_cleanup(START_SECONDS);
	const char *script =
		json_string_value(json_object_get(json_object_get(h->plan, "out"), "links"));
	struct pollfd ended = {.fd = h->children[h->out].proc.pidfd, .events = POLLIN};

	for (;;) {
		bool there = false;

		if (netns_run(h->netns, find_interface, &there, NULL, e) < 0)
			return -1;
		if (there)
			break;
		if (poll(&ended, 1, 0) > 0)
			return err_set(e, ERR_BACKEND, "pasta ended at once");
		if (op_pause(&op, LOOK_EVERY, e) < 0)
			return err_wrap(e, "pasta");
	}
	return child_run(&op, h->netns, ip,
		(struct bytes){(const uint8_t *)script, script ? strlen(script) : 0}, NULL, e);
}

static int start_pasta(struct holder *h, json_t *out, struct err *e)
{
	struct child *c = &h->children[h->n_children];
	const char *us, *it, *path, *links;
	int prefix;

	if (json_get(out, "out", e, "{s:s, s:s, s:i, s:s}", "us", &us, "it", &it, "prefix", &prefix,
		    "links", &links) < 0)
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

int out_start(struct holder *h, struct err *e)
{
	json_t *out = json_object_get(h->plan, "out");

	if (!out)
		return 0;
	if (hostaddr_open(&h->hosts, e) < 0 || bar_host(h, e) < 0 || start_pasta(h, out, e) < 0)
		return -1;
	return set_up(h, e);
}

int out_restarted(struct holder *h, struct err *e)
{
	return set_up(h, e);
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
