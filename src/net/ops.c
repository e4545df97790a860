#include "net/ops.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/capture/capture.h"
#include "net/report.h"
#include "util/auto.h"
#include "util/system/io.h"

#define SHOW_MAX     (32u << 20)
#define COUNTERS_MAX (1u << 20)

enum { COUNTERS_PIECE = 16 * 1024 };

static int ask_show(struct net *net, const struct op *op, json_t **ret, struct err *e)
{
	auto_buf struct buf text = {0};
	auto_fd int fd = -1;

	if (net_request(net, op, "show", json_object(), NULL, &fd, e) < 0 ||
		file_read_all(fd, SHOW_MAX, &text, e) < 0)
		return -1;
	return json_parse_object(buf_bytes(&text), ret, e);
}

int net_show(struct net *net, const struct op *op, json_t **ret, struct err *e)
{
	auto_json json_t *said = NULL;

	return ask_show(net, op, &said, e) < 0 ? -1 : report_make(net_plan(net), said, ret, e);
}

/* Adds the counters of an interface, "  tap0: 9 1 0 0 0 0 0 0 8 1 ...": what the tap receives is
 * what its guest sends. */
static void add_counters(const char *text, const char *tap, int64_t *sent, int64_t *received)
{
	long long in, out;
	size_t len = strlen(tap);

	for (const char *at = text; at; at = strchr(at, '\n')) {
		at += strspn(at, " \n");
		if (strncmp(at, tap, len) != 0 || at[len] != ':')
			continue;
		if (sscanf(at + len + 1, "%lld %*d %*d %*d %*d %*d %*d %*d %lld", &in, &out) == 2) {
			*sent += in;
			*received += out;
		}
		return;
	}
}

/* Such a file has no size: it is read to its end. */
static int read_counters(int fd, struct buf *ret, struct err *e)
{
	ssize_t n;

	do {
		uint8_t *room = buf_room(ret, COUNTERS_PIECE);

		if (!room)
			return err_oom(e);
		n = pread(fd, room, COUNTERS_PIECE, (off_t)ret->len);
		if (n < 0)
			return err_sys(e, errno, "counters");
		buf_grew(ret, (size_t)n);
	} while (n > 0 && ret->len < COUNTERS_MAX);
	return 0;
}

int net_counters(struct net *net, const struct op *op, size_t vm, int64_t *ret_sent,
	int64_t *ret_received, struct err *e)
{
	const struct net_plan *p = net_plan(net);
	auto_buf struct buf file = {0};
	auto_free char *text = NULL;
	int64_t sent = 0, received = 0;
	int fd;

	if (net_counters_file(net, op, &fd, e) < 0 || read_counters(fd, &file, e) < 0)
		return -1;
	text = buf_take_str(&file);
	if (!text)
		return err_oom(e);
	for (size_t i = 0; i < p->n_nics; i++)
		if (p->nics[i].vm == vm)
			add_counters(text, p->nics[i].tap, &sent, &received);
	*ret_sent = sent;
	*ret_received = received;
	return 0;
}

/* A NIC through which the holder can reach the VM: its address is in a subnet in which moat has an
 * address too. */
static const struct net_nic *reachable_nic(const struct net_plan *p, size_t vm)
{
	for (size_t i = 0; i < p->n_nics; i++) {
		const struct net_nic *n = &p->nics[i];
		const struct net_vnet *v = &p->vnets[n->vnet];

		if (n->vm != vm || !n->ipv4)
			continue;
		for (size_t k = 0; k < v->n_subnets; k++)
			if (v->subnets[k].server && ipv4_net_has(v->subnets[k].cidr, n->ipv4))
				return n;
	}
	return NULL;
}

int net_forward(struct net *net, const struct op *op, size_t vm, unsigned port, unsigned host_port,
	json_t **ret, struct err *e)
{
	const struct net_plan *p = net_plan(net);
	const struct net_nic *n = reachable_nic(p, vm);
	auto_json json_t *result = NULL;
	char address[IPV4_TEXT_MAX];

	if (!n)
		return err_set(e, ERR_UNSUPPORTED,
			"VM %s has no address that moat gives out, so there is nothing to connect "
			"to",
			p->spec->vms[vm].name);
	if (net_request(net, op, "forward",
		    json_pack("{s:s, s:i, s:i}", "address", ipv4_text(n->ipv4, address), "port",
			    (int)port, "host_port", (int)host_port),
		    &result, NULL, e) < 0)
		return -1;
	*ret = report_forward(
		p, address, port, json_integer_value(json_object_get(result, "host_port")));
	return *ret ? 0 : err_oom(e);
}

int net_unforward(struct net *net, const struct op *op, unsigned host_port, struct err *e)
{
	return net_request(net, op, "unforward", json_pack("{s:i}", "host_port", (int)host_port),
		NULL, NULL, e);
}

static int find_vnet(const struct net_plan *p, const char *alias, size_t *ret, struct err *e)
{
	*ret = alias ? net_plan_vnet(p, alias) : SIZE_MAX;
	return alias && *ret == SIZE_MAX
		       ? err_set(e, ERR_NOT_FOUND, "no network has the alias \"%s\"", alias)
		       : 0;
}

int net_capture(struct net *net, const struct op *op, const char *vnet,
	int (*output)(void *arg, struct bytes data, struct err *e), void *arg, struct err *e)
{
	const struct net_plan *p = net_plan(net);
	auto_free int *numbers = calloc(p->n_nics + p->n_vnets + 1, sizeof(int));
	auto_json json_t *names = json_array(), *result = NULL;
	size_t only, n_taps = 0, n = 0;
	struct capture c = {.taps = numbers};
	auto_fd int fd = -1;
	json_t *number;
	size_t i;

	if (!numbers || !names)
		return err_oom(e);
	if (find_vnet(p, vnet, &only, e) < 0)
		return -1;
	for (i = 0; i < p->n_nics; i++)
		if (!vnet || p->nics[i].vnet == only) {
			json_array_append_new(names, json_string(p->nics[i].tap));
			n_taps++;
		}
	for (i = 0; i < p->n_vnets; i++)
		if (!vnet || i == only)
			json_array_append_new(names, json_string(p->vnets[i].gate));
	if (net_request(net, op, "listen", json_pack("{s:O}", "interfaces", names), &result, &fd,
		    e) < 0)
		return -1;
	json_array_foreach(json_object_get(result, "numbers"), i, number) {
		if (n < p->n_nics + p->n_vnets)
			numbers[n++] = (int)json_integer_value(number);
	}
	c.fd = fd;
	c.n_taps = n_taps;
	c.gates = numbers + n_taps;
	c.n_gates = n - n_taps;
	return capture_run(&c, op, output, arg, e);
}
