#include "net/holder/setup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/holder/dns.h"
#include "net/holder/egress.h"
#include "net/holder/netns.h"
#include "net/holder/record.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/json.h"

#define STEP_SECONDS 60
#define CONF_AS      3 /* dnsmasq inherits its configuration under this number */

static const struct {
	const char *path, *value;
	bool needed;
} settings[] = {
	/* moat has no IPv6 addresses, so no guest can reach it by IPv6. Between guests
	 * IPv6 passes. */
	{"/proc/sys/net/ipv6/conf/all/disable_ipv6", "1", false},
	{"/proc/sys/net/ipv6/conf/default/disable_ipv6", "1", false},
	/* Those who serve DHCP and DNS here need no right for that. */
	{"/proc/sys/net/ipv4/ip_unprivileged_port_start", "0", true},
	/* Answer ARP for an address only on the bridge that has it, and drop packets whose source
	 * address belongs to another interface. */
	{"/proc/sys/net/ipv4/conf/all/arp_ignore", "1", true},
	{"/proc/sys/net/ipv4/conf/all/rp_filter", "1", true},
	/* The larger one of "all" and "default" counts, and a new namespace copies the host's
	 * default: often 2. */
	{"/proc/sys/net/ipv4/conf/default/rp_filter", "1", true},
	{"/proc/sys/net/ipv4/conf/all/send_redirects", "0", true},
	{"/proc/sys/net/ipv4/conf/default/send_redirects", "0", true},
	{"/proc/sys/net/ipv4/conf/all/accept_redirects", "0", true},
	{"/proc/sys/net/ipv4/conf/default/accept_redirects", "0", true},
	/* The kernel remembers each address that it tells of an error, or gets a fragment from, or
	 * had a connection with. A guest has any number of addresses. The rules limit errors. */
	{"/proc/sys/net/ipv4/icmp_ratemask", "0", true},
	{"/proc/sys/net/ipv4/ipfrag_max_dist", "0", true},
	{"/proc/sys/net/ipv4/tcp_no_metrics_save", "1", false},
	/* Connections to our DNS that have ended. */
	{"/proc/sys/net/ipv4/tcp_max_tw_buckets", "1024", false},
	/* Frames between guests of a vnet pass the bridge without the IP rules. */
	{"/proc/sys/net/bridge/bridge-nf-call-iptables", "0", false},
	{"/proc/sys/net/bridge/bridge-nf-call-ip6tables", "0", false},
	{"/proc/sys/net/bridge/bridge-nf-call-arptables", "0", false},
};

static int write_setting(const char *path, const char *value, bool needed, struct err *e)
{
	auto_fd int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT && !needed)
		return 0; /* this kernel lacks the feature, so it is off */
	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		return err_sys(e, errno, "%s", path);
	return 0;
}

static struct bytes text_of(const json_t *plan, const char *name)
{
	const char *text = json_string_value(json_object_get(plan, name));

	return (struct bytes){(const uint8_t *)text, text ? strlen(text) : 0};
}

static int load_rules(struct holder *h, bool arp, struct err *e)
{
	static const char *const nft[] = {"nft", "-f", "-", NULL};
	struct op op = op_for_cleanup(STEP_SECONDS);
	struct bytes rules = text_of(h->plan, "rules"), more = text_of(h->plan, "arp");
	auto_buf struct buf text = {0};

	if (buf_add(&text, rules.p, rules.len, e) < 0 ||
		(arp && buf_add(&text, more.p, more.len, e) < 0) ||
		(h->hosts.fd >= 0 && hostaddr_script(&h->hosts, &text, e) < 0))
		return -1;
	return child_run(&op, -1, nft, buf_bytes(&text), NULL, e);
}

/* Loads the rules before any interface exists, so that nothing ever passes without them. */
static int make_rules(void *arg, struct err *e)
{
	struct holder *h = arg;

	/* ip_forward first, as writing it resets other settings. Without egress and routing it is
	 * off, whatever the rules say. */
	if (write_setting("/proc/sys/net/ipv4/ip_forward",
		    json_is_true(json_object_get(h->plan, "forward")) ? "1" : "0", true, e) < 0)
		return -1;
	for (unsigned i = 0; i < ARRAY_LEN(settings); i++)
		if (write_setting(settings[i].path, settings[i].value, settings[i].needed, e) < 0)
			return -1;
	/* Try without ARP rules if the kernel has none: nft loads all rules or nothing. */
	if (load_rules(h, true, e) < 0 && load_rules(h, false, e) < 0)
		return -1;
	/* How long a connection is remembered after packets that nobody answers; as long as the
	 * others. The setting is there when rules that need it are. */
	return write_setting(
		"/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_unacknowledged", "120", false, e);
}

/*
 * Makes packets leave the bridge's end of a cable as they would be on a wire. What a guest sends
 * comes with instructions of the guest's: to cut it into packets or fragments, or to write a
 * checksum at some place in it. The kernel obeys when a packet leaves by an interface that cannot.
 * If that were pasta's, it would be after the rules have judged the packet, and a "checksum" could
 * be another address or port. Without checksums the kernel does not leave the cutting to an
 * interface either.
 */
static int finish_packets(const char *cable, struct err *e)
{
	struct ethtool_value off = {.cmd = ETHTOOL_STXCSUM}, now = {.cmd = ETHTOOL_GTXCSUM};
	struct ifreq ifr = {.ifr_data = (char *)&off};
	auto_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", cable);
	if (fd < 0 || ioctl(fd, SIOCETHTOOL, &ifr) < 0)
		return err_sys(e, errno, "checksums of %s", cable);
	ifr.ifr_data = (char *)&now;
	if (ioctl(fd, SIOCETHTOOL, &ifr) < 0)
		return err_sys(e, errno, "checksums of %s", cable);
	return now.data == 0 ? 0 : err_set(e, ERR_UNSUPPORTED, "checksums of %s stay on", cable);
}

static int make_links(void *arg, struct err *e)
{
	static const char *const ip[] = {"ip", "-batch", "-", NULL};
	static const char *const bridge[] = {"bridge", "-batch", "-", NULL};
	struct op op = op_for_cleanup(STEP_SECONDS);
	struct holder *h = arg;
	json_t *cable;
	size_t i;

	if (child_run(&op, -1, ip, text_of(h->plan, "links"), NULL, e) < 0)
		return -1;
	if (text_of(h->plan, "vlans").len &&
		child_run(&op, -1, bridge, text_of(h->plan, "vlans"), NULL, e) < 0)
		return -1;
	json_array_foreach(json_object_get(h->plan, "cables"), i, cable)
		if (finish_packets(json_string_value(cable), e) < 0)
			return -1;
	return 0;
}

static struct child *add_child(struct holder *h, const char *what, int netns)
{
	struct child *c = &h->children[h->n_children];

	*c = (struct child){.what = what, .netns = netns, .log_fd = h->log[1], .proc = PROC_NONE};
	return c;
}

static int start_child(struct holder *h, struct child *c, struct err *e)
{
	if (strv_check(&c->argv, e) < 0 || child_start(c, e) < 0)
		return -1;
	h->n_children++;
	return 0;
}

static int start_dhcp(struct holder *h, const json_t *vnet, struct err *e)
{
	struct child *c = add_child(h, "dnsmasq", h->netns);
	const char *text = json_string_value(json_object_get(vnet, "conf"));
	const char *gate = json_string_value(json_object_get(vnet, "gate"));
	int conf, leases;

	if (!text || !gate || h->n_children == HOLDER_CHILDREN_MAX)
		return err_set(e, ERR_INTERNAL, "dhcp: not a plan");
	if (file_in_memory("dnsmasq.conf", text, strlen(text), &conf, e) < 0 ||
		file_in_memory("leases", "", 0, &leases, e) < 0)
		return -1;
	h->leases[h->n_leases++] = (struct lease_file){.gate = gate, .fd = leases};
	/* dnsmasq closes all other files when it has read its configuration. */
	c->is_own = true;
	c->in_fd = leases;
	c->fds[0] = (struct proc_fd){conf, CONF_AS};
	c->n_fds = 1;
	strv_add_all(&c->argv, "moat-helper", "net-dhcp", "dnsmasq", "--log-facility=-",
		"--quiet-dhcp", "--no-hosts", "--no-resolv", "--pid-file", NULL);
	/* dnsmasq is root of this namespace, which has no other user, and must not try to become
	 * one. */
	strv_add_all(&c->argv, "--no-daemon", "--user=", "--group=", NULL);
	strv_addf(&c->argv, "--conf-file=/proc/self/fd/%d", CONF_AS);
	strv_add(&c->argv, "--dhcp-leasefile=/proc/self/fd/0");
	return start_child(h, c, e);
}

int holder_setup(struct holder *h, struct err *e)
{
	json_t *dhcp = json_object_get(h->plan, "dhcp"), *vnet;
	size_t i;

	if (egress_read_host(h, e) < 0 || netns_run(-1, make_rules, h, &h->netns, e) < 0)
		return -1;
	/* pasta and DNS get ready while we make the links. */
	if (egress_start(h, e) < 0 || dns_start(h, e) < 0 ||
		netns_run(h->netns, make_links, h, NULL, e) < 0)
		return -1;
	json_array_foreach(dhcp, i, vnet)
		if (start_dhcp(h, vnet, e) < 0)
			return -1;
	if (record_start(h, e) < 0 || dns_wait(h, e) < 0)
		return -1;
	return egress_set_up_interface(h, e);
}
