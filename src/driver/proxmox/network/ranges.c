#include "driver/proxmox/network/ranges.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "driver/proxmox/network/claims.h"
#include "driver/proxmox/site/entry.h"
#include "driver/proxmox/site/node.h"
#include "util/auto.h"
#include "util/json.h"

#define LEAVING_SECONDS 120.0
#define LEAVING_LOOK    0.5
enum { RANGE_TRIES = 400, TAKEN_MAX = 4096 };

/* Appends the networks of an array of objects that have a "cidr". */
static void collect(const json_t *list, struct ipv4_net *nets, size_t *n, size_t max)
{
	const json_t *one;
	struct err ignored;
	size_t i;

	json_array_foreach((json_t *)list, i, one) {
		const char *text = json_string_value(json_object_get(one, "cidr"));
		char copy[64], *slash;
		uint32_t addr;
		unsigned prefix;

		if (!text || *n == max || strlen(text) >= sizeof(copy))
			continue;
		/* The address of an interface has host bits, which ipv4_net_parse refuses. */
		memcpy(copy, text, strlen(text) + 1);
		slash = strchr(copy, '/');
		if (!slash)
			continue;
		*slash = '\0';
		prefix = (unsigned)atoi(slash + 1);
		if (prefix < 1 || prefix > 32 || ipv4_parse(copy, &addr, &ignored) < 0)
			continue;
		nets[(*n)++] = (struct ipv4_net){addr & ipv4_mask(prefix), prefix};
	}
}

struct taken {
	struct ipv4_net *nets;
	size_t n;
	size_t leaving; /* how many of these, at the beginning, are of sandboxes that are gone */
};

/* Appends the networks of vnets. leaving: of vnets with our stamp whose sandbox is gone;
 * otherwise of vnets without our stamp. Networks of sandboxes that live are in site->ranges. */
static int collect_vnets(struct pve_sandbox *b, const struct op *op, const json_t *vnets,
	bool leaving, struct taken *t, struct err *e)
{
	const json_t *v;
	char id[32];
	size_t i;

	json_array_foreach((json_t *)vnets, i, v) {
		const char *name = json_string_value(json_object_get(v, "vnet"));
		const char *alias = json_string_value(json_object_get(v, "alias"));
		bool ours = alias && pve_stamp_find(b->d, alias, id);
		auto_json json_t *subnets = NULL;
		auto_free char *at = NULL;

		if (!name || ours != leaving || (ours && pve_sandbox_lives(b->d, id)))
			continue;
		if (pve_path(&at, e, "/cluster/sdn/vnets/%s/subnets", name) < 0 ||
			(pve_fetch(b->site, op, at, &subnets, e) < 0 && e->kind != ERR_NOT_FOUND))
			return -1;
		collect(subnets, t->nets, &t->n, TAKEN_MAX);
	}
	return 0;
}

/* Lists the networks that are on the site or on the node, without those of our living sandboxes.
 * Simple zones share the node's routes, so two networks that overlap disturb each other. */
static int list_taken(struct pve_sandbox *b, const struct op *op, struct taken *t, struct err *e)
{
	auto_json json_t *vnets = NULL, *interfaces = NULL;
	auto_free char *path = NULL;

	t->n = 0;
	if (pve_do(b->api, op, "GET", NULL, 0, &vnets, e, "/cluster/sdn/vnets") < 0 ||
		collect_vnets(b, op, vnets, true, t, e) < 0)
		return -1;
	t->leaving = t->n;
	if (collect_vnets(b, op, vnets, false, t, e) < 0 ||
		pve_path(&path, e, "/nodes/%s/network", b->inst->node) < 0 ||
		pve_fetch(b->site, op, path, &interfaces, e) < 0)
		return -1;
	collect(interfaces, t->nets, &t->n, TAKEN_MAX);
	return 0;
}

static bool is_taken(struct ipv4_net net, const struct ipv4_net *nets, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ipv4_net_overlaps(net, nets[i]))
			return true;
	return false;
}

/* Claims a random /24 in 10.64.0.0/10. It is random so that an eval that relies on a certain
 * network fails early. */
static int choose_range(
	struct pve_sandbox *b, const struct ipv4_net *foreign, size_t n, struct err *e)
{
	for (int i = 0; i < RANGE_TRIES; i++) {
		struct ipv4_net net = {.prefix = 24};
		uint32_t r;

		if (getrandom(&r, sizeof(r), 0) != (ssize_t)sizeof(r))
			return err_set(e, ERR_INTERNAL, "no random numbers");
		net.addr = 0x0a400000u | (r & 0x003fff00u);
		if (is_taken(net, foreign, n))
			continue;
		if (pve_claims_take_net(b, b->site, net, e) < 0) {
			if (e->kind != ERR_BUSY)
				return -1;
			continue;
		}
		b->auto_range = (struct dhcp_range){net.addr + 50, net.addr + 200};
		b->auto_subnet = (struct subnet_spec){.cidr = net,
			.gateway = net.addr + 1,
			.snat = json_is_true(json_object_get(b->spec->native, "auto_snat")),
			.dhcp_ranges = &b->auto_range,
			.n_dhcp_ranges = 1};
		return 0;
	}
	return err_set(e, ERR_BUSY, "no free network range was found on %s", b->inst->id);
}

static int check_given(struct pve_sandbox *b, const struct taken *t, struct err *e)
{
	const struct networks_spec *net = &b->spec->networks;
	char text[NET_TEXT_MAX];

	for (size_t i = 0; i < net->n_vnets; i++)
		for (size_t k = 0; k < net->vnets[i].n_subnets; k++) {
			struct ipv4_net cidr = net->vnets[i].subnets[k].cidr;

			if (is_taken(cidr, t->nets + t->leaving, t->n - t->leaving))
				return spec_err(e,
					SPEC_PLACE("networks.vnets[%zu].subnets[%zu].cidr", i, k),
					"%s overlaps a network that exists on %s already",
					ipv4_net_text(cidr, text), b->inst->id);
			if (is_taken(cidr, t->nets, t->leaving))
				return err_set(e, ERR_BUSY,
					"%s is still a network of a sandbox that is gone, on %s: "
					"`moat gc` removes it",
					ipv4_net_text(cidr, text), b->inst->id);
		}
	return 0;
}

int pve_ranges_choose(struct pve_sandbox *b, const struct op *op, struct err *e)
{
	auto_free struct ipv4_net *nets = calloc(TAKEN_MAX, sizeof(*nets));
	struct op part = op_within(op, LEAVING_SECONDS);
	struct taken t = {.nets = nets};
	struct err late;

	if (!nets)
		return err_oom(e);
	for (;;) {
		if (list_taken(b, op, &t, e) < 0)
			return -1;
		if (b->spec->networks.mode == SPEC_NET_AUTO)
			return choose_range(b, t.nets, t.n, e);
		if (check_given(b, &t, e) == 0)
			return 0;
		if (e->kind != ERR_BUSY)
			return -1;
		op_progress(op, 0, 0, "waiting: %.200s", e->msg);
		if (op_pause(&part, LEAVING_LOOK, &late) < 0)
			return -1;
	}
}
