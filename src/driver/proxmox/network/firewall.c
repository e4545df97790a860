/*
 * The wall around a sandbox, where the server's firewall is on: rules of each VM, which go with it.
 * A VM whose spec says firewall is left to whoever wrote that.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/pve-check.h"
#include "driver/pve.h"
#include "util/auto.h"
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

struct rule {
	const char *action;
	const char *dest, *proto, *port; /* NULL: all */
	char text[NET_TEXT_MAX];         /* what dest points to, if it is made up */
};

struct wall {
	struct rule *rules; /* the first one that fits decides */
	size_t n;
	bool out; /* some network has a way out */
};

static struct rule *add_rule(struct wall *w, const char *action)
{
	struct rule *r = &w->rules[w->n++];

	*r = (struct rule){.action = action};
	return r;
}

static void add_dns(struct wall *w, const char *server, const char *proto)
{
	struct rule *r = add_rule(w, "ACCEPT");

	snprintf(r->text, sizeof(r->text), "%s", server);
	r->dest = r->text;
	r->proto = proto;
	r->port = "53";
}

/* Where there is no other to ask, guests are told by DHCP to ask the node. */
static void add_own_dns(struct wall *w, const struct vnet_spec *vnet, const struct subnet_spec *s)
{
	char gateway[NET_TEXT_MAX];

	if (!s->gateway || !s->snat || !vnet->dhcp || !s->n_dhcp_ranges)
		return;
	ipv4_text(s->gateway, gateway);
	add_dns(w, gateway, "udp");
	add_dns(w, gateway, "tcp");
}

static void add_gateway(struct wall *w, const struct subnet_spec *s)
{
	struct rule *r;

	if (!s->gateway)
		return;
	r = add_rule(w, "DROP");
	r->dest = ipv4_text(s->gateway, r->text);
}

static void add_subnet(struct wall *w, const struct subnet_spec *s)
{
	struct rule *r = add_rule(w, "ACCEPT");

	r->dest = ipv4_net_text(s->cidr, r->text);
	w->out |= s->snat;
}

static int plan(const struct pve_box *b, struct wall *ret, struct err *e)
{
	size_t most = 3; /* names, twice, and the last one */

	for (size_t i = 0; i < b->n_vnets; i++)
		most += 4 * b->vnets[i].n_subnets;
	*ret = (struct wall){.rules = calloc(most, sizeof(struct rule))};
	if (!ret->rules)
		return err_oom(e);
	for (size_t i = 0; i < b->n_vnets && !b->dns; i++)
		for (size_t k = 0; k < b->vnets[i].n_subnets; k++)
			add_own_dns(ret, b->vnets[i].spec, &b->vnets[i].subnets[k]);
	/* A gateway is the node itself. */
	for (size_t i = 0; i < b->n_vnets; i++)
		for (size_t k = 0; k < b->vnets[i].n_subnets; k++)
			add_gateway(ret, &b->vnets[i].subnets[k]);
	for (size_t i = 0; i < b->n_vnets; i++)
		for (size_t k = 0; k < b->vnets[i].n_subnets; k++)
			add_subnet(ret, &b->vnets[i].subnets[k]);
	if (ret->out && b->dns) {
		add_dns(ret, b->dns, "udp");
		add_dns(ret, b->dns, "tcp");
	}
	/* Without a way out, all that is left. The policy alone would not do: a clone has its
	 * template's rules below ours. */
	add_rule(ret, "DROP")->dest = ret->out ? PRIVATE_NETWORKS : NULL;
	return 0;
}

static int send_rule(
	const struct pve_vm *vm, const struct op *op, const struct rule *r, struct err *e)
{
	return pve_do(vm->box->api, op, "POST",
		json_pack("{s:s, s:s, s:i, s:s*, s:s*, s:s*}", "type", "out", "action", r->action,
			"enable", 1, "dest", r->dest, "proto", r->proto, "dport", r->port),
		PVE_PATIENT, NULL, e, "/nodes/%s/qemu/%u/firewall/rules", vm->box->inst->node,
		vm->vmid);
}

int pve_wall_make(struct pve_vm *vm, const struct op *op, struct err *e)
{
	struct pve_box *b = vm->box;
	auto_free struct rule *rules = NULL;
	struct wall w;

	if (!b->walled || vm->spec->firewall || !vm->spec->n_nics)
		return 0;
	if (plan(b, &w, e) < 0)
		return -1;
	rules = w.rules;
	/* The server puts each new rule on top of all others, so the last one goes first. */
	for (size_t i = w.n; i-- > 0;)
		if (send_rule(vm, op, &rules[i], e) < 0)
			return err_wrap(e, "firewall");
	if (pve_do(b->api, op, "PUT",
		    json_pack("{s:b, s:b, s:s, s:s}", "enable", 1, "dhcp", 1, "policy_in", "ACCEPT",
			    "policy_out", w.out ? "ACCEPT" : "DROP"),
		    PVE_TWICE | PVE_PATIENT, NULL, e, "/nodes/%s/qemu/%u/firewall/options",
		    b->inst->node, vm->vmid) < 0)
		return err_wrap(e, "firewall");
	return 0;
}
