/*
 * Networks: a zone of the server's SDN for each sandbox, with its vnets and subnets. Changes are
 * pending until they are applied to the whole cluster, which takes seconds: whoever has changes
 * waits for one apply together with all others who have some.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "driver/pve.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/lock.h"
#include "util/str.h"

#define LEAVING_SECONDS 120.0
#define LEAVING_LOOK    0.5
enum { NAME_TRIES = 5, RANGE_TRIES = 400, POST_TRIES = 4, TAKEN_MAX = 4096, LINK_LOCAL = 0xa9fe };

/* ---- ranges ---- */

static void add_range_locked(struct pve_site *s, const struct pve_box *b, struct pve_range *r)
{
	snprintf(r->owner, sizeof(r->owner), "%s", b->range_key);
	r->next = s->ranges;
	s->ranges = r;
}

static bool overlaps_locked(const struct pve_site *s, struct ipv4_net net, const char *but_not)
{
	for (const struct pve_range *r = s->ranges; r; r = r->next)
		if (!mac_is_set(r->mac) && ipv4_net_overlaps(r->net, net) &&
			strcmp(r->owner, but_not) != 0)
			return true;
	return false;
}

static bool has_mac_locked(const struct pve_site *s, struct mac_addr mac)
{
	for (const struct pve_range *r = s->ranges; r; r = r->next)
		if (mac_is_set(r->mac) && mac_equal(r->mac, mac))
			return true;
	return false;
}

static bool wants_dhcp(const struct networks_spec *net)
{
	bool wants = net->mode == SPEC_NET_AUTO;

	for (size_t i = 0; i < net->n_vnets; i++)
		for (size_t k = 0; k < net->vnets[i].n_subnets; k++)
			wants |= net->vnets[i].dhcp && net->vnets[i].subnets[k].n_dhcp_ranges;
	return wants;
}

/* Whether the server would keep an IP address for the card: zones have DHCP or have not, as a
 * whole. */
static bool is_known_card(const struct sandbox_spec *spec, const struct nic_spec *nic)
{
	return mac_is_set(nic->mac) && nic->vnet_index != SPEC_NO_VNET &&
	       wants_dhcp(&spec->networks);
}

bool pve_net_clashes(const struct pve_box *b, struct pve_site *site)
{
	const struct sandbox_spec *spec = b->spec;
	const struct networks_spec *net = &spec->networks;
	auto_unlock pthread_mutex_t *held = lock_take(&site->mu);

	for (size_t i = 0; i < spec->n_vms; i++)
		for (size_t k = 0; k < spec->vms[i].n_nics; k++)
			if (is_known_card(spec, &spec->vms[i].nics[k]) &&
				has_mac_locked(site, spec->vms[i].nics[k].mac))
				return true;
	if (net->mode != SPEC_NET_VNETS)
		return false;
	for (size_t i = 0; i < net->n_vnets; i++)
		for (size_t k = 0; k < net->vnets[i].n_subnets; k++)
			if (overlaps_locked(site, net->vnets[i].subnets[k].cidr, b->range_key))
				return true;
	return false;
}

/* Takes it for the box unless another sandbox of ours has it. */
static int take_range(struct pve_box *b, struct pve_site *site, struct ipv4_net net, struct err *e)
{
	struct pve_range *r = calloc(1, sizeof(*r));
	char text[NET_TEXT_MAX];

	if (!r)
		return err_oom(e);
	r->net = net;
	auto_unlock pthread_mutex_t *held = lock_take(&site->mu);
	if (overlaps_locked(site, net, b->range_key)) {
		free(r);
		return err_set(e, ERR_BUSY, "network %s is used by another sandbox on %s",
			ipv4_net_text(net, text), site->key);
	}
	add_range_locked(site, b, r);
	return 0;
}

static int take_card(struct pve_box *b, struct pve_site *site, struct mac_addr mac, struct err *e)
{
	struct pve_range *r = calloc(1, sizeof(*r));
	char text[MAC_TEXT_MAX];

	if (!r)
		return err_oom(e);
	r->mac = mac;
	auto_unlock pthread_mutex_t *held = lock_take(&site->mu);
	if (has_mac_locked(site, mac)) {
		free(r);
		return err_set(e, ERR_BUSY, "another sandbox on %s has a card with the MAC %s",
			site->key, mac_text(mac, text));
	}
	add_range_locked(site, b, r);
	return 0;
}

static void forget(const struct pve_box *b, struct pve_site *site)
{
	auto_unlock pthread_mutex_t *held = lock_take(&site->mu);

	for (struct pve_range **at = &site->ranges; *at;) {
		struct pve_range *r = *at;

		if (strcmp(r->owner, b->range_key) != 0) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		free(r);
	}
}

void pve_net_forget(struct pve_box *b)
{
	if (b->site)
		forget(b, b->site);
}

static int take_cards(struct pve_box *b, struct pve_site *site, struct err *e)
{
	for (size_t i = 0; i < b->spec->n_vms; i++)
		for (size_t k = 0; k < b->spec->vms[i].n_nics; k++) {
			const struct nic_spec *nic = &b->spec->vms[i].nics[k];

			if (is_known_card(b->spec, nic) && take_card(b, site, nic->mac, e) < 0)
				return -1;
		}
	return 0;
}

static int take_ranges(struct pve_box *b, struct pve_site *site, struct err *e)
{
	const struct networks_spec *net = &b->spec->networks;

	for (size_t i = 0; net->mode == SPEC_NET_VNETS && i < net->n_vnets; i++)
		for (size_t k = 0; k < net->vnets[i].n_subnets; k++)
			if (take_range(b, site, net->vnets[i].subnets[k].cidr, e) < 0)
				return -1;
	return 0;
}

int pve_net_claim(struct pve_box *b, struct pve_site *site, struct err *e)
{
	if (take_cards(b, site, e) == 0 && take_ranges(b, site, e) == 0)
		return 0;
	forget(b, site);
	return -1;
}

/* Appends the networks of an array of objects with a "cidr". */
static void collect(const json_t *list, struct ipv4_net *nets, size_t *n, size_t max)
{
	const json_t *one;
	struct err ignored;
	size_t i;

	json_array_foreach((json_t *)list, i, one)
	{
		const char *text = json_string_value(json_object_get(one, "cidr"));
		char copy[64], *slash;
		uint32_t addr;
		unsigned prefix;

		if (!text || *n == max || strlen(text) >= sizeof(copy))
			continue;
		/* An interface's address has host bits. */
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
	size_t leaving; /* of these, at the beginning: of sandboxes that are gone */
};

/* Appends the networks of vnets: of those with a stamp of ours whose sandbox is gone, or of those
 * without one. Those of sandboxes that live are in site->ranges. */
static int collect_vnets(struct pve_box *b, const struct op *op, const json_t *vnets, bool leaving,
	struct taken *t, struct err *e)
{
	const json_t *v;
	char id[32];
	size_t i;

	json_array_foreach((json_t *)vnets, i, v)
	{
		const char *name = json_string_value(json_object_get(v, "vnet"));
		const char *alias = json_string_value(json_object_get(v, "alias"));
		bool ours = alias && pve_stamp_find(b->d, alias, id);
		auto_json json_t *subnets = NULL;
		auto_free char *at = NULL;

		if (!name || ours != leaving || (ours && pve_box_lives(b->d, id)))
			continue;
		if (pve_path(&at, e, "/cluster/sdn/vnets/%s/subnets", name) < 0 ||
			(pve_fetch(b->site, op, at, &subnets, e) < 0 && e->kind != ERR_NOT_FOUND))
			return -1;
		collect(subnets, t->nets, &t->n, TAKEN_MAX);
	}
	return 0;
}

/* The networks that are on the site or on the node, but for those of our living sandboxes: simple
 * zones share the node's routes, so two that overlap disturb each other. */
static int list_taken(struct pve_box *b, const struct op *op, struct taken *t, struct err *e)
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

/* ---- choosing ---- */

static int random_u32(uint32_t *ret, struct err *e)
{
	if (getrandom(ret, sizeof(*ret), 0) != (ssize_t)sizeof(*ret))
		return err_set(e, ERR_INTERNAL, "no random numbers");
	return 0;
}

static bool is_taken(struct ipv4_net net, const struct ipv4_net *nets, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ipv4_net_overlaps(net, nets[i]))
			return true;
	return false;
}

/* A /24 somewhere in 10.64.0.0/10, at random: an eval that relies on one is found out early. */
static int choose_range(struct pve_box *b, const struct ipv4_net *foreign, size_t n, struct err *e)
{
	for (int i = 0; i < RANGE_TRIES; i++) {
		struct ipv4_net net = {.prefix = 24};
		uint32_t r;

		if (random_u32(&r, e) < 0)
			return -1;
		net.addr = 0x0a400000u | (r & 0x003fff00u);
		if (is_taken(net, foreign, n))
			continue;
		if (take_range(b, b->site, net, e) < 0) {
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

static int check_given(struct pve_box *b, const struct taken *t, struct err *e)
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

/* A network that is still to be removed is waited for: two with one gateway would disturb each
 * other. */
static int choose_ranges(struct pve_box *b, const struct op *op, struct err *e)
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
		if (e->kind != ERR_BUSY || op_pause(&part, LEAVING_LOOK, &late) < 0)
			return -1;
	}
}

/* ---- making ---- */

/* Zone "mXXXXXn", vnets "mXXXXX00" and on: at most 8 characters, and never what other tools take
 * for their own. */
static int choose_names(struct pve_box *b, struct err *e)
{
	static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
	char stem[7] = "m";
	uint32_t r;

	if (random_u32(&r, e) < 0)
		return -1;
	for (int i = 1; i < 6; i++, r /= 36)
		stem[i] = digits[r % 36];
	snprintf(b->zone, sizeof(b->zone), "%sn", stem);
	for (size_t i = 0; i < b->n_vnets; i++)
		snprintf(b->vnets[i].id, sizeof(b->vnets[i].id), "%s%c%c", stem, digits[i / 36],
			digits[i % 36]);
	return 0;
}

static bool has_ranges(const struct pve_vnet *v)
{
	for (size_t k = 0; k < v->n_subnets; k++)
		if (v->spec->dhcp && v->subnets[k].n_dhcp_ranges)
			return true;
	return false;
}

static bool zone_has_dhcp(const struct pve_box *b)
{
	for (size_t i = 0; i < b->n_vnets; i++)
		if (has_ranges(&b->vnets[i]))
			return true;
	return false;
}

/* Makes something under a name that is ours alone: if an answer was lost and the second try says
 * that there is one already, it is the first try's. params is used up. */
static int post_named(
	struct pve_box *b, const struct op *op, json_t *params, const char *path, struct err *e)
{
	auto_json __attribute__((unused)) json_t *used = params;

	for (int i = 0;; i++) {
		if (pve_call(b->api, op, "POST", path, params, PVE_PATIENT, NULL, e) == 0)
			return 0;
		if (i > 0 && strstr(e->msg, "already"))
			return 0;
		if (e->kind != ERR_UNAVAILABLE || i + 1 == POST_TRIES)
			return -1;
		if (op_pause(op, 0.1 * (1 << i), e) < 0)
			return -1;
	}
}

static int make_zone(struct pve_box *b, const struct op *op, struct err *e)
{
	json_t *params = json_pack("{s:s, s:s}", "type", "simple", "zone", b->zone);

	if (params && zone_has_dhcp(b)) {
		json_object_set_new(params, "ipam", json_string("pve"));
		json_object_set_new(params, "dhcp", json_string("dnsmasq"));
	}
	if (params && json_is_object(json_object_get(b->spec->native, "zone")))
		json_object_update(params, json_object_get(b->spec->native, "zone"));
	return post_named(b, op, params, "/cluster/sdn/zones", e);
}

static int make_vnet(
	struct pve_box *b, const struct op *op, const struct pve_vnet *v, struct err *e)
{
	auto_free char *alias = NULL, *path = NULL;
	json_t *params;

	/* The alias is the only place for a stamp. */
	if (str_printf(&alias, e, "%.180s %s", v->spec->alias, b->stamp) < 0)
		return -1;
	for (char *c = alias; *c; c++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_. ()",
			    *c))
			*c = '_';
	params = json_pack("{s:s, s:s, s:s}", "vnet", v->id, "zone", b->zone, "alias", alias);
	if (params && v->spec->vlan_aware)
		json_object_set_new(params, "vlanaware", json_true());
	if (post_named(b, op, params, "/cluster/sdn/vnets", e) < 0 ||
		pve_path(&path, e, "/cluster/sdn/vnets/%s/subnets", v->id) < 0)
		return -1;
	for (size_t i = 0; i < v->n_subnets; i++)
		if (pve_subnet_params(v->spec, &v->subnets[i], b->dns, &params, e) < 0 ||
			post_named(b, op, params, path, e) < 0)
			return -1;
	return 0;
}

/* A name that is taken is the one failure that another try helps against. */
static int make_named_zone(struct pve_box *b, const struct op *op, struct err *e)
{
	for (int i = 0;; i++) {
		struct err ignored;

		if (choose_names(b, e) < 0 ||
			pve_thing_intent(b, "zone", b->zone, &b->zone_row, e) < 0)
			return -1;
		if (make_zone(b, op, e) == 0)
			return journal_done(b->d->env->journal, b->zone_row, e);
		if (i + 1 == NAME_TRIES || !strstr(e->msg, "already"))
			return -1;
		if (journal_gone(b->d->env->journal, b->zone_row, &ignored) < 0)
			return -1;
		b->zone[0] = '\0';
	}
}

static int list_vnets(struct pve_box *b, struct err *e)
{
	const struct networks_spec *net = &b->spec->networks;

	b->vnets = calloc(net->n_vnets ? net->n_vnets : 1, sizeof(*b->vnets));
	if (!b->vnets)
		return err_oom(e);
	b->n_vnets = net->n_vnets;
	for (size_t i = 0; i < b->n_vnets; i++) {
		b->vnets[i].spec = &net->vnets[i];
		b->vnets[i].subnets = net->vnets[i].subnets;
		b->vnets[i].n_subnets = net->vnets[i].n_subnets;
	}
	if (net->mode == SPEC_NET_AUTO) {
		b->vnets[0].subnets = &b->auto_subnet;
		b->vnets[0].n_subnets = 1;
	}
	return 0;
}

/* Guests with a way out need somebody to ask for names: whom the node asks, if that is not itself
 * or something next to it, like a metadata service. */
static int find_dns(struct pve_box *b, const struct op *op, struct err *e)
{
	auto_json json_t *dns = NULL;
	const char *server;
	struct err ignored;
	uint32_t addr;
	bool out = false;

	for (size_t i = 0; i < b->n_vnets; i++)
		for (size_t k = 0; k < b->vnets[i].n_subnets; k++)
			out |= b->vnets[i].subnets[k].snat && b->vnets[i].spec->dhcp;
	if (!out || b->dns)
		return 0;
	if (pve_do(b->api, op, "GET", NULL, 0, &dns, e, "/nodes/%s/dns", b->inst->node) < 0)
		return e->kind == ERR_CANCELLED || e->kind == ERR_TIMEOUT ? -1 : 0;
	server = json_string_value(json_object_get(dns, "dns1"));
	if (!server || ipv4_parse(server, &addr, &ignored) < 0 || addr >> 24 == 127 ||
		addr >> 16 == LINK_LOCAL)
		return 0;
	return str_dup(server, &b->dns, e);
}

int pve_net_make(struct pve_box *b, const struct op *op, struct err *e)
{
	enum spec_net_mode mode = b->spec->networks.mode;

	if (mode == SPEC_NET_NONE || mode == SPEC_NET_EXISTING)
		return 0;
	op_progress(op, 0, 0, "making networks");
	if (list_vnets(b, e) < 0 || choose_ranges(b, op, e) < 0 || find_dns(b, op, e) < 0 ||
		make_named_zone(b, op, e) < 0)
		return err_wrap(e, "networks");
	for (size_t i = 0; i < b->n_vnets; i++)
		if (make_vnet(b, op, &b->vnets[i], e) < 0)
			return err_wrap(e, "network %s", b->vnets[i].spec->alias);
	return pve_sdn_make(b, op, e);
}

/* ---- using ---- */

static int find_existing(
	struct pve_box *b, const struct op *op, const char *alias, char **ret, struct err *e)
{
	auto_json json_t *vnets = NULL;
	const char *found = NULL;
	const json_t *v;
	size_t i;

	if (pve_do(b->api, op, "GET", NULL, 0, &vnets, e, "/cluster/sdn/vnets") < 0)
		return -1;
	json_array_foreach(vnets, i, v)
	{
		const char *id = json_string_value(json_object_get(v, "vnet"));
		const char *text = json_string_value(json_object_get(v, "alias"));

		if (id && ((text && strcmp(text, alias) == 0) || strcmp(id, alias) == 0)) {
			if (found)
				return err_set(e, ERR_INVALID,
					"%s has several networks with the alias %s", b->inst->id,
					alias);
			found = id;
		}
	}
	if (!found)
		return err_set(e, ERR_NOT_FOUND, "%s has no network with the alias %s", b->inst->id,
			alias);
	return str_dup(found, ret, e);
}

int pve_net_bridge(struct pve_box *b, const struct op *op, const struct nic_spec *nic, char **ret,
	struct err *e)
{
	if (nic->vnet_index != SPEC_NO_VNET)
		return str_dup(b->vnets[nic->vnet_index].id, ret, e);
	return find_existing(b, op, nic->vnet, ret, e);
}

int pve_net_reserve(struct pve_box *b, const struct op *op, const struct pve_vm *vm,
	const struct nic_spec *nic, struct err *e)
{
	char ip[IPV4_TEXT_MAX], mac[MAC_TEXT_MAX];
	const struct pve_vnet *vnet;
	json_t *params;
	int rc;

	if (!nic->ipv4 || nic->vnet_index == SPEC_NO_VNET || !zone_has_dhcp(b))
		return 0;
	vnet = &b->vnets[nic->vnet_index];
	if (!vnet->spec->dhcp)
		return 0;
	ipv4_text(nic->ipv4, ip);
	mac_text(nic->mac, mac);
	for (char *c = mac; *c; c++)
		*c = (char)(*c >= 'a' && *c <= 'f' ? *c - 32 : *c);
	if (json_make(&params, e, "{s:s, s:s, s:s}", "zone", b->zone, "ip", ip, "mac", mac) < 0)
		return -1;
	/* Where there are ranges the card got an address when it was connected, which is exchanged
	 * for the one that is wanted. A card that has none cannot exchange it. */
	if (has_ranges(vnet)) {
		json_object_set_new(params, "vmid", json_integer(vm->vmid));
		rc = pve_do(b->api, op, "PUT", params, PVE_TWICE | PVE_PATIENT, NULL, e,
			"/cluster/sdn/vnets/%s/ips", vnet->id);
	} else {
		char path[64];

		snprintf(path, sizeof(path), "/cluster/sdn/vnets/%s/ips", vnet->id);
		rc = post_named(b, op, params, path, e);
	}
	return rc < 0 ? err_wrap(e, "address %s of VM %s", ip, vm->spec->name) : 0;
}
