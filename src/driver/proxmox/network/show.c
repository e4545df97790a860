#include "driver/proxmox/network/show.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"

enum { NICS_MAX = 32 }; /* of a VM, on the server */

/* ---- vnets ---- */

static json_t *ranges_json(const struct subnet_spec *s)
{
	json_t *list = json_array();
	char start[IPV4_TEXT_MAX], end[IPV4_TEXT_MAX];

	for (size_t i = 0; i < s->n_dhcp_ranges; i++) {
		ipv4_text(s->dhcp_ranges[i].start, start);
		ipv4_text(s->dhcp_ranges[i].end, end);
		json_array_append_new(list, json_pack("{s:s, s:s}", "start", start, "end", end));
	}
	return list;
}

static json_t *subnet_json(const struct subnet_spec *s)
{
	char cidr[NET_TEXT_MAX], gateway[IPV4_TEXT_MAX] = "";

	if (s->gateway)
		ipv4_text(s->gateway, gateway);
	return json_pack("{s:s, s:s*, s:n, s:b, s:o}", "cidr", ipv4_net_text(s->cidr, cidr),
		"gateway", s->gateway ? gateway : NULL, "server", "snat", s->snat, "dhcp_ranges",
		ranges_json(s));
}

static json_t *vnet_json(const struct pve_vnet *v)
{
	json_t *subnets = json_array();
	bool out = false;

	for (size_t i = 0; i < v->n_subnets; i++) {
		out |= v->subnets[i].snat;
		json_array_append_new(subnets, subnet_json(&v->subnets[i]));
	}
	return json_pack("{s:s, s:s, s:b, s:b, s:s, s:o}", "alias", v->spec->alias, "id", v->id,
		"dhcp", v->spec->dhcp, "vlan_aware", v->spec->vlan_aware, "egress",
		out ? "open" : "deny", "subnets", subnets);
}

/* ---- NICs ---- */

struct showing {
	struct pve_sandbox *b;
	const struct op *op;
	json_t *ipam; /* the addresses that the server has given out */
	json_t *nics;
};

/* A part of "virtio=BC:24:11:00:00:01,bridge=x,tag=5": the value of a key, "" if there is none. The
 * MAC is the value of the first, whose key is the model. */
static void read_part(const char *nic, const char *key, char *ret, size_t size)
{
	ret[0] = '\0';
	for (const char *p = nic; *p;) {
		size_t n = strcspn(p, ","), k = strcspn(p, "=");
		bool is = key ? k == strlen(key) && strncmp(p, key, k) == 0 : p == nic;

		if (is && k < n) {
			snprintf(ret, size, "%.*s", (int)(n - k - 1), p + k + 1);
			return;
		}
		p += n + (p[n] == ',');
	}
}

static const char *given_address(const struct showing *s, const char *mac)
{
	const json_t *one;
	size_t i;

	json_array_foreach(s->ipam, i, one) {
		const char *zone = json_string_value(json_object_get(one, "zone"));
		const char *has = json_string_value(json_object_get(one, "mac"));

		if (zone && has && strcmp(zone, s->b->zone) == 0 && strcasecmp(has, mac) == 0)
			return json_string_value(json_object_get(one, "ip"));
	}
	return NULL;
}

/* A hostile guest's word, for people to read. */
static const char *told_address(const json_t *interfaces, const char *mac)
{
	const json_t *one, *address;
	size_t i, k;

	json_array_foreach((json_t *)interfaces, i, one) {
		const char *has = json_string_value(json_object_get(one, "hardware-address"));

		if (!has || strcasecmp(has, mac) != 0)
			continue;
		json_array_foreach(json_object_get(one, "ip-addresses"), k, address) {
			const char *type =
				json_string_value(json_object_get(address, "ip-address-type"));

			if (type && strcmp(type, "ipv4") == 0)
				return json_string_value(json_object_get(address, "ip-address"));
		}
	}
	return NULL;
}

static int add_nic(struct showing *s, const struct pve_vm *vm, unsigned number, const char *text,
	const json_t *interfaces, struct err *e)
{
	const struct nic_spec *spec = number < vm->spec->n_nics ? &vm->spec->nics[number] : NULL;
	char mac[32], bridge[64], tag[16], ipv4[IPV4_TEXT_MAX];
	const char *lease, *name;
	uint32_t ignored_addr;
	struct err ignored;
	json_t *one;

	read_part(text, NULL, mac, sizeof(mac));
	read_part(text, "bridge", bridge, sizeof(bridge));
	read_part(text, "tag", tag, sizeof(tag));
	name = bridge;
	for (size_t i = 0; i < s->b->n_vnets; i++)
		if (strcmp(s->b->vnets[i].id, bridge) == 0)
			name = s->b->vnets[i].spec->alias;
	lease = given_address(s, mac);
	if (!lease)
		lease = told_address(interfaces, mac);
	if (lease && ipv4_parse(lease, &ignored_addr, &ignored) < 0)
		lease = NULL;
	if (spec && spec->ipv4)
		ipv4_text(spec->ipv4, ipv4);
	if (json_make(&one, e, "{s:s, s:i, s:s, s:s, s:s?, s:s?, s:i}", "vm", vm->spec->name, "nic",
		    (int)number, "vnet", name, "mac", mac, "ipv4", spec && spec->ipv4 ? ipv4 : NULL,
		    "lease", lease, "vlan_tag", atoi(tag)) < 0)
		return -1;
	return json_array_append_new(s->nics, one) < 0 ? err_oom(e) : 0;
}

static int add_nics(struct showing *s, const struct pve_vm *vm, struct err *e)
{
	const char *node = s->b->inst->node;
	auto_json json_t *config = NULL, *told = NULL;
	struct err ignored;

	if (pve_do(s->b->api, s->op, "GET", NULL, 0, &config, e, "/nodes/%s/qemu/%u/config", node,
		    vm->vmid) < 0)
		return err_wrap(e, "VM %s", vm->spec->name);
	/* A VM without an agent, or whose agent does not answer, has not said anything. */
	if ((!vm->spec->is_sandbox && !vm->spec->healthcheck) ||
		pve_do(s->b->api, s->op, "GET", NULL, PVE_BRIEF, &told, &ignored,
			"/nodes/%s/qemu/%u/agent/network-get-interfaces", node, vm->vmid) < 0)
		told = NULL;
	for (unsigned i = 0; i < NICS_MAX; i++) {
		char key[16];
		const char *text;

		snprintf(key, sizeof(key), "net%u", i);
		text = json_string_value(json_object_get(config, key));
		if (text && add_nic(s, vm, i, text, json_object_get(told, "result"), e) < 0)
			return -1;
	}
	return 0;
}

int pve_net_show(struct pve_sandbox *b, const struct op *op, json_t **ret, struct err *e)
{
	auto_json json_t *vnets = json_array(), *nics = json_array(), *ipam = NULL;
	struct showing s = {.b = b, .op = op, .nics = nics};

	if (b->zone[0] &&
		pve_do(b->api, op, "GET", NULL, 0, &ipam, e, "/cluster/sdn/ipams/pve/status") < 0)
		return -1;
	s.ipam = ipam;
	for (size_t i = 0; b->zone[0] && i < b->n_vnets; i++)
		json_array_append_new(vnets, vnet_json(&b->vnets[i]));
	for (size_t i = 0; i < b->n_vms; i++)
		if (add_nics(&s, &b->vms[i], e) < 0)
			return -1;
	return json_make(ret, e, "{s:O, s:O, s:[], s:{s:[], s:[]}}", "vnets", vnets, "nics", nics,
		"forwards", "refused", "names", "connections");
}
