#include "driver/proxmox/network/claims.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/proxmox/spec/check.h"
#include "util/thread/lock.h"

static void add_locked(struct pve_site *s, const struct pve_sandbox *b, struct pve_range *r)
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

/* Whether the server keeps an IP address for the NIC's MAC. A zone has DHCP as a whole or not at
 * all. */
static bool is_known_nic(const struct sandbox_spec *spec, const struct nic_spec *nic)
{
	return mac_is_set(nic->mac) && nic->vnet_index != SPEC_NO_VNET &&
	       wants_dhcp(&spec->networks);
}

bool pve_claims_clash(const struct pve_sandbox *b, struct pve_site *site)
{
	const struct sandbox_spec *spec = b->spec;
	const struct networks_spec *net = &spec->networks;
	auto_unlock struct lock *held = lock_take(&site->mu);

	for (size_t i = 0; i < spec->n_vms; i++)
		for (size_t k = 0; k < spec->vms[i].n_nics; k++)
			if (is_known_nic(spec, &spec->vms[i].nics[k]) &&
				has_mac_locked(site, spec->vms[i].nics[k].mac))
				return true;
	if (net->mode != SPEC_NET_VNETS || !pve_uses_networks(spec))
		return false;
	for (size_t i = 0; i < net->n_vnets; i++)
		for (size_t k = 0; k < net->vnets[i].n_subnets; k++)
			if (overlaps_locked(site, net->vnets[i].subnets[k].cidr, b->range_key))
				return true;
	return false;
}

int pve_claims_take_net(
	struct pve_sandbox *b, struct pve_site *site, struct ipv4_net net, struct err *e)
{
	struct pve_range *r = calloc(1, sizeof(*r));
	char text[NET_TEXT_MAX];

	if (!r)
		return err_oom(e);
	r->net = net;
	auto_unlock struct lock *held = lock_take(&site->mu);
	if (overlaps_locked(site, net, b->range_key)) {
		free(r);
		return err_set(e, ERR_BUSY, "network %s is used by another sandbox on %s",
			ipv4_net_text(net, text), site->key);
	}
	add_locked(site, b, r);
	return 0;
}

static int take_mac(
	struct pve_sandbox *b, struct pve_site *site, struct mac_addr mac, struct err *e)
{
	struct pve_range *r = calloc(1, sizeof(*r));
	char text[MAC_TEXT_MAX];

	if (!r)
		return err_oom(e);
	r->mac = mac;
	auto_unlock struct lock *held = lock_take(&site->mu);
	if (has_mac_locked(site, mac)) {
		free(r);
		return err_set(e, ERR_BUSY, "another sandbox on %s has a NIC with the MAC %s",
			site->key, mac_text(mac, text));
	}
	add_locked(site, b, r);
	return 0;
}

static void forget(const struct pve_sandbox *b, struct pve_site *site)
{
	auto_unlock struct lock *held = lock_take(&site->mu);

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

void pve_claims_forget(struct pve_sandbox *b)
{
	if (b->site)
		forget(b, b->site);
}

static int take_macs(struct pve_sandbox *b, struct pve_site *site, struct err *e)
{
	for (size_t i = 0; i < b->spec->n_vms; i++)
		for (size_t k = 0; k < b->spec->vms[i].n_nics; k++) {
			const struct nic_spec *nic = &b->spec->vms[i].nics[k];

			if (is_known_nic(b->spec, nic) && take_mac(b, site, nic->mac, e) < 0)
				return -1;
		}
	return 0;
}

static int take_nets(struct pve_sandbox *b, struct pve_site *site, struct err *e)
{
	const struct networks_spec *net = &b->spec->networks;

	if (net->mode != SPEC_NET_VNETS || !pve_uses_networks(b->spec))
		return 0;
	for (size_t i = 0; i < net->n_vnets; i++)
		for (size_t k = 0; k < net->vnets[i].n_subnets; k++)
			if (pve_claims_take_net(b, site, net->vnets[i].subnets[k].cidr, e) < 0)
				return -1;
	return 0;
}

int pve_claims_take(struct pve_sandbox *b, struct pve_site *site, struct err *e)
{
	if (take_macs(b, site, e) == 0 && take_nets(b, site, e) == 0)
		return 0;
	forget(b, site);
	return -1;
}
