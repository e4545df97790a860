/*
 * The wall around a sandbox, where the server's firewall is on: rules of each VM, which go with it.
 * A VM whose spec says firewall is left to whoever wrote that.
 */
#include <stdio.h>
#include <string.h>

#include "driver/pve-check.h"
#include "driver/pve.h"
#include "util/json.h"

/* Where other sandboxes, the node and its neighbours are. */
#define PRIVATE_NETWORKS "10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,100.64.0.0/10,169.254.0.0/16"

int pve_wall_find(struct pve_box *b, const struct op *op, struct err *e)
{
	auto_json json_t *options = NULL;
	bool isolated = pve_is_isolated(b->spec);
	int rc;

	if (!b->spec->networks.n_vnets)
		return 0;
	/* Without the wall there is no isolation, so what was true two minutes ago is not enough.
	 */
	if (isolated)
		rc = pve_do(b->api, op, "GET", NULL, 0, &options, e, "/cluster/firewall/options");
	else
		rc = pve_fetch(b->site, op, "/cluster/firewall/options", &options, e);
	/* One that may not be looked at cannot be relied on. */
	if (rc < 0 && e->kind != ERR_PERMISSION && e->kind != ERR_BACKEND)
		return -1;
	b->walled = json_integer_value(json_object_get(options, "enable")) != 0;
	if (isolated && !b->walled)
		return err_set(e, ERR_UNSUPPORTED,
			"native.isolated: the firewall of %s is off, or may not be looked at "
			"(Sys.Audit on /), and nothing else keeps guests from the node; turn it on "
			"with `pvesh set /cluster/firewall/options --enable 1`",
			b->inst->id);
	return 0;
}

struct wall {
	struct pve_vm *vm;
	const struct op *op;
	unsigned rules;
};

/* proto, port: NULL for all. */
static int add_rule(struct wall *w, const char *action, const char *dest, const char *proto,
	const char *port, struct err *e)
{
	struct pve_box *b = w->vm->box;

	return pve_do(b->api, w->op, "POST",
		json_pack("{s:s, s:s, s:s, s:i, s:i, s:s*, s:s*}", "type", "out", "action", action,
			"dest", dest, "enable", 1, "pos", (int)w->rules++, "proto", proto, "dport",
			port),
		0, NULL, e, "/nodes/%s/qemu/%u/firewall/rules", b->inst->node, w->vm->vmid);
}

static int add_subnet(struct wall *w, const struct subnet_spec *s, struct err *e)
{
	char net[NET_TEXT_MAX], gateway[IPV4_TEXT_MAX];

	/* The gateway is the node itself. */
	if (s->gateway && add_rule(w, "DROP", ipv4_text(s->gateway, gateway), NULL, NULL, e) < 0)
		return -1;
	return add_rule(w, "ACCEPT", ipv4_net_text(s->cidr, net), NULL, NULL, e);
}

int pve_wall_make(struct pve_vm *vm, const struct op *op, struct err *e)
{
	struct pve_box *b = vm->box;
	struct wall w = {.vm = vm, .op = op};
	bool out = false;

	if (!b->walled || vm->spec->firewall || !vm->spec->n_nics)
		return 0;
	for (size_t i = 0; i < b->n_vnets; i++)
		for (size_t k = 0; k < b->vnets[i].n_subnets; k++) {
			out |= b->vnets[i].subnets[k].snat;
			if (add_subnet(&w, &b->vnets[i].subnets[k], e) < 0)
				return err_wrap(e, "firewall");
		}
	if (out && b->dns &&
		(add_rule(&w, "ACCEPT", b->dns, "udp", "53", e) < 0 ||
			add_rule(&w, "ACCEPT", b->dns, "tcp", "53", e) < 0))
		return err_wrap(e, "firewall");
	if (out && add_rule(&w, "DROP", PRIVATE_NETWORKS, NULL, NULL, e) < 0)
		return err_wrap(e, "firewall");
	if (pve_do(b->api, op, "PUT",
		    json_pack("{s:b, s:b, s:s, s:s}", "enable", 1, "dhcp", 1, "policy_in", "ACCEPT",
			    "policy_out", out ? "ACCEPT" : "DROP"),
		    PVE_TWICE, NULL, e, "/nodes/%s/qemu/%u/firewall/options", b->inst->node,
		    vm->vmid) < 0)
		return err_wrap(e, "firewall");
	return 0;
}
