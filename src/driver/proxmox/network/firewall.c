/*
 * The rules are rules of each VM, so they are removed with it. A VM whose spec says "firewall" gets
 * none of ours: its rules are the user's business.
 */
#include "driver/proxmox/network/firewall.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/proxmox/site/node.h"
#include "driver/proxmox/spec/check.h"
#include "util/auto.h"
#include "util/json.h"

/* Other sandboxes, the node and its neighbours have addresses in these. The last one is Azure's
 * host; the metadata services of other clouds are in the networks before it. */
#define PRIVATE_NETWORKS                                                                           \
	"10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,100.64.0.0/10,169.254.0.0/16,168.63.129.16"
/* Amazon's metadata service; a list of the firewall has addresses of one family only. */
#define METADATA_IPV6 "fd00:ec2::254"
enum { RULE_TRIES = 4 };

int pve_firewall_find(struct pve_sandbox *b, const struct op *op, struct err *e)
{
	auto_json json_t *options = NULL;
	bool isolated = pve_is_isolated(b->spec);
	int rc;

	if (!b->spec->networks.n_vnets)
		return 0;
	/* Without a firewall there is no isolation, so an answer that is two minutes old is not
	 * good enough. */
	if (isolated)
		rc = pve_do(b->api, op, "GET", NULL, 0, &options, e, "/cluster/firewall/options");
	else
		rc = pve_fetch(b->site, op, "/cluster/firewall/options", &options, e);
	/* A firewall whose options we may not read counts as off. */
	if (rc < 0 && e->kind != ERR_PERMISSION && e->kind != ERR_BACKEND)
		return -1;
	b->firewalled = json_integer_value(json_object_get(options, "enable")) != 0;
	if (isolated && !b->firewalled)
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
	char text[NET_TEXT_MAX];         /* what dest points to, if it is made here */
};

struct firewall {
	struct rule *rules; /* the first rule that fits decides */
	size_t n;
	bool out; /* some network has egress */
};

static struct rule *add_rule(struct firewall *f, const char *action)
{
	struct rule *r = &f->rules[f->n++];

	*r = (struct rule){.action = action};
	return r;
}

static void add_dns(struct firewall *f, const char *server, const char *proto)
{
	struct rule *r = add_rule(f, "ACCEPT");

	snprintf(r->text, sizeof(r->text), "%s", server);
	r->dest = r->text;
	r->proto = proto;
	r->port = "53";
}

/* Without another DNS server, DHCP tells guests to ask the node. */
static void add_own_dns(
	struct firewall *f, const struct vnet_spec *vnet, const struct subnet_spec *s)
{
	char gateway[NET_TEXT_MAX];

	if (!s->gateway || !s->snat || !vnet->dhcp || !s->n_dhcp_ranges)
		return;
	ipv4_text(s->gateway, gateway);
	add_dns(f, gateway, "udp");
	add_dns(f, gateway, "tcp");
}

static void add_gateway(struct firewall *f, const struct subnet_spec *s)
{
	struct rule *r;

	if (!s->gateway)
		return;
	r = add_rule(f, "DROP");
	r->dest = ipv4_text(s->gateway, r->text);
}

static void add_subnet(struct firewall *f, const struct subnet_spec *s)
{
	struct rule *r = add_rule(f, "ACCEPT");

	r->dest = ipv4_net_text(s->cidr, r->text);
	f->out |= s->snat;
}

static int plan(const struct pve_sandbox *b, struct firewall *ret, struct err *e)
{
	size_t most = 4; /* DNS over UDP and over TCP, and the last two rules */

	for (size_t i = 0; i < b->n_vnets; i++)
		most += 4 * b->vnets[i].n_subnets;
	*ret = (struct firewall){.rules = calloc(most, sizeof(struct rule))};
	if (!ret->rules)
		return err_oom(e);
	for (size_t i = 0; i < b->n_vnets && !b->dns; i++)
		for (size_t k = 0; k < b->vnets[i].n_subnets; k++)
			add_own_dns(ret, b->vnets[i].spec, &b->vnets[i].subnets[k]);
	/* The gateway of a subnet is the node itself. */
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
	if (ret->out)
		add_rule(ret, "DROP")->dest = METADATA_IPV6;
	/* The last rule drops all private networks or, without egress, all that is left. A
	 * policy would not do: below our rules, a clone has those of its template. */
	add_rule(ret, "DROP")->dest = ret->out ? PRIVATE_NETWORKS : NULL;
	return 0;
}

/* Whether the VM has the rule: the answer to its making was lost. Rules carry a comment by which
 * they are known. */
static int has_rule(
	const struct pve_vm *vm, const struct op *op, const char *comment, bool *ret, struct err *e)
{
	auto_json json_t *rules = NULL;
	const json_t *one;
	size_t i;

	if (pve_do(vm->sandbox->api, op, "GET", NULL, 0, &rules, e,
		    "/nodes/%s/qemu/%u/firewall/rules", vm->sandbox->inst->node, vm->vmid) < 0)
		return -1;
	*ret = false;
	json_array_foreach(rules, i, one) {
		const char *text = json_string_value(json_object_get(one, "comment"));

		*ret |= text && strcmp(text, comment) == 0;
	}
	return 0;
}

static int send_rule(const struct pve_vm *vm, const struct op *op, const struct rule *r, size_t at,
	struct err *e)
{
	char comment[80];
	bool there = false;
	struct err why;

	snprintf(comment, sizeof(comment), "%s %zu", vm->sandbox->stamp, at);
	for (int tries = 1; !there; tries++) {
		if (pve_do(vm->sandbox->api, op, "POST",
			    json_pack("{s:s, s:s, s:i, s:s, s:s*, s:s*, s:s*}", "type", "out",
				    "action", r->action, "enable", 1, "comment", comment, "dest",
				    r->dest, "proto", r->proto, "dport", r->port),
			    PVE_PATIENT, NULL, e, "/nodes/%s/qemu/%u/firewall/rules",
			    vm->sandbox->inst->node, vm->vmid) == 0)
			return 0;
		if (e->kind != ERR_UNAVAILABLE || e->sys == PVE_NOT_SENT || tries == RULE_TRIES ||
			has_rule(vm, op, comment, &there, &why) < 0)
			return -1;
	}
	return 0;
}

int pve_firewall_make(struct pve_vm *vm, const struct op *op, struct err *e)
{
	struct pve_sandbox *b = vm->sandbox;
	auto_free struct rule *rules = NULL;
	struct firewall f;

	if (!b->firewalled || vm->spec->firewall || !vm->spec->n_nics)
		return 0;
	if (plan(b, &f, e) < 0)
		return -1;
	rules = f.rules;
	/* The server puts each new rule on top of all others, so they are sent from the last to
	 * the first. */
	for (size_t i = f.n; i-- > 0;)
		if (send_rule(vm, op, &rules[i], i, e) < 0)
			return err_wrap(e, "firewall");
	if (pve_do(b->api, op, "PUT",
		    json_pack("{s:b, s:b, s:s, s:s}", "enable", 1, "dhcp", 1, "policy_in", "ACCEPT",
			    "policy_out", f.out ? "ACCEPT" : "DROP"),
		    PVE_TWICE | PVE_PATIENT, NULL, e, "/nodes/%s/qemu/%u/firewall/options",
		    b->inst->node, vm->vmid) < 0)
		return err_wrap(e, "firewall");
	return 0;
}
