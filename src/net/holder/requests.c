#include "net/holder/requests.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/capture/capture.h"
#include "net/holder/dns.h"
#include "net/holder/netns.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/json.h"

#define LEASES_MAX      (1u << 20)
#define LIST_SECONDS    30
#define CONNECT_SECONDS 20

struct tap {
	const char *name;
	int fd;
};

static int open_tap(void *arg, struct err *e)
{
	struct tap *tap = arg;
	struct ifreq ifr = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
	auto_fd int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return err_sys(e, errno, "/dev/net/tun");
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", tap->name);
	if (ioctl(fd, TUNSETIFF, &ifr) < 0)
		return err_sys(e, errno, "tap %s", tap->name);
	tap->fd = take_fd(&fd);
	return 0;
}

static int answer_tap(struct holder *h, json_t *args, int *ret_fd, struct err *e)
{
	struct tap tap = {.fd = -1};

	if (json_get(args, "tap", e, "{s:s}", "name", &tap.name) < 0 ||
		netns_run(h->netns, open_tap, &tap, NULL, e) < 0)
		return -1;
	*ret_fd = tap.fd;
	return 0;
}

static int add_leases(struct holder *h, json_t *show, struct err *e)
{
	json_t *all = json_object();

	if (!all || json_object_set_new(show, "leases", all) < 0)
		return err_oom(e);
	for (unsigned i = 0; i < h->n_leases; i++) {
		auto_buf struct buf text = {0};
		auto_free char *s = NULL;

		/* A file over the limit, which guests can cause, must not hide the rest. */
		if (file_read_all(h->leases[i].fd, LEASES_MAX, &text, e) < 0 &&
			e->kind != ERR_LIMIT)
			return -1;
		s = buf_take_str(&text);
		if (!s || json_object_set_new(all, h->leases[i].gate, json_text(s)) < 0)
			return err_oom(e);
	}
	return 0;
}

static int list_set(struct holder *h, json_t *show, const char *name, struct err *e)
{
	const char *argv[] = {"nft", "-j", "list", "set", "inet", "moat", name, NULL};
	struct op op = op_for_cleanup(LIST_SECONDS);
	auto_buf struct buf out = {0};
	json_t *j;

	if (child_run(&op, h->netns, argv, (struct bytes){0}, &out, e) < 0 ||
		json_parse_object(buf_bytes(&out), &j, e) < 0)
		return -1;
	return json_object_set_new(show, name, j) < 0 ? err_oom(e) : 0;
}

static int add_forwards(struct holder *h, json_t *show, struct err *e)
{
	struct forward all[FORWARDS_MAX];
	json_t *list = json_array();
	unsigned n;

	if (!list || json_object_set_new(show, "forwards", list) < 0)
		return err_oom(e);
	n = forwards_list(h->forwards, all);
	for (unsigned i = 0; i < n; i++) {
		const struct forward *f = &all[i];
		char text[IPV4_TEXT_MAX];

		if (json_array_append_new(list,
			    json_pack("{s:s, s:i, s:i}", "address", ipv4_text(f->addr, text),
				    "port", (int)f->port, "host_port", (int)f->host_port)) < 0)
			return err_oom(e);
	}
	return 0;
}

/* Answers with a file, as it may be long. */
static int answer_file(const json_t *doc, int *ret_fd, struct err *e)
{
	auto_free char *text = NULL;

	if (json_to_str(doc, &text, e) < 0)
		return -1;
	return file_in_memory("answer", text, strlen(text), ret_fd, e);
}

static int answer_leases(struct holder *h, int *ret_fd, struct err *e)
{
	auto_json json_t *doc = json_object();

	if (!doc)
		return err_oom(e);
	return add_leases(h, doc, e) < 0 ? -1 : answer_file(doc, ret_fd, e);
}

/* The state of the network. */
static int answer_show(struct holder *h, int *ret_fd, struct err *e)
{
	auto_json json_t *show = json_object();

	if (!show)
		return err_oom(e);
	if (json_object_set_new(show, "names", dns_refusals(h)) < 0)
		return err_oom(e);
	if (add_leases(h, show, e) < 0 || add_forwards(h, show, e) < 0 ||
		list_set(h, show, "refused", e) < 0 || list_set(h, show, "refused_other", e) < 0 ||
		list_set(h, show, "refused_more", e) < 0)
		return -1;
	return answer_file(show, ret_fd, e);
}

/* Begins to connect, in the network namespace of the calling thread. */
static int begin_connect(uint32_t addr, unsigned port, int *ret_fd, struct err *e)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(addr)};
	auto_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return err_sys(e, errno, "socket");
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 && errno != EINPROGRESS)
		return err_sys(e, errno, "connect");
	*ret_fd = take_fd(&fd);
	return 0;
}

int holder_connect(
	void *arg, const struct op *op, const struct forward *f, int *ret_fd, struct err *e)
{
	struct op soon = op_within(op, CONNECT_SECONDS);
	struct holder *h = arg;
	auto_fd int fd = -1;
	int failed = 0;
	socklen_t len = sizeof(failed);

	if (setns(h->netns, CLONE_NEWNET) < 0)
		return err_sys(e, errno, "network namespace");
	if (begin_connect(f->addr, f->port, &fd, e) < 0)
		return -1;
	if (op_wait_fd(&soon, fd, POLLOUT, e) < 0)
		return -1;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &len) < 0)
		failed = errno;
	if (failed)
		return err_sys(e, failed, "connect");
	*ret_fd = take_fd(&fd);
	return 0;
}

static int answer_forward(struct holder *h, json_t *args, json_t **ret, struct err *e)
{
	const char *address;
	struct forward f = {0};
	int port, host_port;
	unsigned became;

	if (json_get(args, "forward", e, "{s:s, s:i, s:i}", "address", &address, "port", &port,
		    "host_port", &host_port) < 0 ||
		ipv4_parse(address, &f.addr, e) < 0)
		return -1;
	f.port = (unsigned)port;
	f.host_port = (unsigned)host_port;
	if (forwards_add(h->forwards, &f, &became, e) < 0)
		return -1;
	return json_make(ret, e, "{s:i}", "host_port", (int)became);
}

static int answer_unforward(struct holder *h, json_t *args, struct err *e)
{
	int host_port;

	if (json_get(args, "unforward", e, "{s:i}", "host_port", &host_port) < 0)
		return -1;
	return forwards_remove(h->forwards, (unsigned)host_port, e);
}

struct listen {
	json_t *names, *numbers;
	int fd;
};

static int listen_inside(void *arg, struct err *e)
{
	struct listen *l = arg;
	json_t *name;
	size_t i;

	json_array_foreach(l->names, i, name)
		json_array_append_new(
			l->numbers, json_integer(if_nametoindex(json_string_value(name))));
	return capture_socket(&l->fd, e);
}

/* Answers with a socket that sees all frames, and with the numbers of the interfaces. */
static int answer_listen(struct holder *h, json_t *args, json_t **ret, int *ret_fd, struct err *e)
{
	struct listen l = {.numbers = json_array(), .fd = -1};

	if (!l.numbers || json_make(ret, e, "{s:o}", "numbers", l.numbers) < 0)
		return err_oom(e);
	if (json_get(args, "listen", e, "{s:o}", "interfaces", &l.names) < 0 ||
		netns_run(h->netns, listen_inside, &l, NULL, e) < 0)
		return -1;
	*ret_fd = l.fd;
	return 0;
}

static int open_counters(void *arg, struct err *e)
{
	int *fd = arg;

	*fd = open("/proc/thread-self/net/dev", O_RDONLY | O_CLOEXEC);
	return *fd < 0 ? err_sys(e, errno, "counters") : 0;
}

struct ask {
	const char *tap, *bridge;
	struct mac_addr from;
	int fd;
};

/* Nothing but ARP: whatever else the guest sends costs the reader nothing. */
static int take_arp_only(int fd, struct err *e)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, offsetof(struct ethhdr, h_proto)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_ARP, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, ETH_FRAME_LEN),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog program = {.len = ARRAY_LEN(code), .filter = code};

	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) < 0)
		return err_sys(e, errno, "packet filter");
	return 0;
}

static int ask_inside(void *arg, struct err *e)
{
	struct ask *ask = arg;
	struct sockaddr_ll at = {.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL), /* others come after the bridge took the frame */
		.sll_ifindex = (int)if_nametoindex(ask->tap)};
	struct ifreq ifr = {0};
	auto_fd int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return err_sys(e, errno, "packet socket");
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", ask->bridge);
	if (ioctl(fd, SIOCGIFHWADDR, &ifr) < 0)
		return err_sys(e, errno, "%s", ask->bridge);
	memcpy(ask->from.b, ifr.ifr_hwaddr.sa_data, sizeof(ask->from.b));
	if (take_arp_only(fd, e) < 0)
		return -1;
	if (!at.sll_ifindex || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		return err_sys(e, errno, "%s", ask->tap);
	ask->fd = take_fd(&fd);
	return 0;
}

/* Answers with a socket at a tap, which takes and gives frames of ARP, and with the address that
 * may ask. */
static int answer_ask(struct holder *h, json_t *args, json_t **ret, int *ret_fd, struct err *e)
{
	struct ask ask = {.fd = -1};
	auto_fd int fd = -1;
	char mac[MAC_TEXT_MAX];

	if (json_get(args, "ask", e, "{s:s, s:s}", "tap", &ask.tap, "bridge", &ask.bridge) < 0 ||
		netns_run(h->netns, ask_inside, &ask, NULL, e) < 0)
		return -1;
	fd = ask.fd;
	if (json_make(ret, e, "{s:s}", "mac", mac_text(ask.from, mac)) < 0)
		return -1;
	*ret_fd = take_fd(&fd);
	return 0;
}

struct dial {
	uint32_t addr;
	int port, fd;
};

static int dial_inside(void *arg, struct err *e)
{
	struct dial *d = arg;

	return begin_connect(d->addr, (unsigned)d->port, &d->fd, e);
}

/* Answers with a socket that is being connected to a VM's port. */
static int answer_dial(struct holder *h, json_t *args, int *ret_fd, struct err *e)
{
	struct dial d = {.fd = -1};
	const char *address;

	if (json_get(args, "dial", e, "{s:s, s:i}", "address", &address, "port", &d.port) < 0 ||
		ipv4_parse(address, &d.addr, e) < 0 ||
		netns_run(h->netns, dial_inside, &d, NULL, e) < 0)
		return -1;
	*ret_fd = d.fd;
	return 0;
}

int holder_answer(
	struct holder *h, const char *op, json_t *args, json_t **ret, int *ret_fd, struct err *e)
{
	if (strcmp(op, "tap") == 0)
		return answer_tap(h, args, ret_fd, e);
	if (strcmp(op, "show") == 0)
		return answer_show(h, ret_fd, e);
	if (strcmp(op, "forward") == 0)
		return answer_forward(h, args, ret, e);
	if (strcmp(op, "unforward") == 0)
		return answer_unforward(h, args, e);
	if (strcmp(op, "listen") == 0)
		return answer_listen(h, args, ret, ret_fd, e);
	if (strcmp(op, "leases") == 0)
		return answer_leases(h, ret_fd, e);
	if (strcmp(op, "counters") == 0)
		return netns_run(h->netns, open_counters, ret_fd, NULL, e);
	if (strcmp(op, "ask") == 0)
		return answer_ask(h, args, ret, ret_fd, e);
	if (strcmp(op, "dial") == 0)
		return answer_dial(h, args, ret_fd, e);
	return err_set(e, ERR_INTERNAL, "the network's holder knows no \"%s\"", op);
}
