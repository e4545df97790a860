#include "net/holder/requests.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
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

/* The state of the network, in a file, as it may be long. */
static int answer_show(struct holder *h, int *ret_fd, struct err *e)
{
	auto_json json_t *show = json_object();
	auto_free char *text = NULL;

	if (!show)
		return err_oom(e);
	if (json_object_set_new(show, "names", dns_refusals(h->dns)) < 0)
		return err_oom(e);
	if (add_leases(h, show, e) < 0 || add_forwards(h, show, e) < 0 ||
		list_set(h, show, "refused", e) < 0 || list_set(h, show, "refused_other", e) < 0 ||
		list_set(h, show, "refused_more", e) < 0 || json_to_str(show, &text, e) < 0)
		return -1;
	return file_in_memory("show", text, strlen(text), ret_fd, e);
}

int holder_connect(
	void *arg, const struct op *op, const struct forward *f, int *ret_fd, struct err *e)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
		.sin_port = htons((uint16_t)f->port),
		.sin_addr.s_addr = htonl(f->addr)};
	struct op soon = op_within(op, CONNECT_SECONDS);
	struct holder *h = arg;
	auto_fd int fd = -1;
	int failed = 0;
	socklen_t len = sizeof(failed);

	if (setns(h->netns, CLONE_NEWNET) < 0)
		return err_sys(e, errno, "network namespace");
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_sys(e, errno, "socket");
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 && errno != EINPROGRESS)
		return err_sys(e, errno, "connect");
	if (op_wait_fd(&soon, fd, POLLOUT, e) < 0)
		return -1;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &len) < 0 || failed)
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
	return err_set(e, ERR_INTERNAL, "the network's holder knows no \"%s\"", op);
}
