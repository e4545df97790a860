#include "spec/check-nets.h"

#include <string.h>
#include <strings.h>

#include "util/auto.h"

/* A DHCP server cannot serve larger networks; /31 and /32 have no room for a gateway and a VM. */
#define PREFIX_MIN 8
#define PREFIX_MAX 30

#define PLACE_OF_SUBNET "networks.vnets[%zu].subnets[%zu]"

/* Networks whose addresses mean something else to every IP stack. */
static const struct {
	struct ipv4_net net;
	const char *why;
} reserved[] = {
	{{0x00000000, 8}, "addresses that begin with 0 are no machine's"},
	{{0x7f000000, 8}, "addresses that begin with 127 are each machine's own"},
	{{0xa9fe0000, 16}, "169.254.0.0/16 is for link-local addresses and metadata services"},
	{{0xe0000000, 4}, "224.0.0.0/4 is for multicast"},
	{{0xf0000000, 4}, "240.0.0.0/4 is reserved"},
};

static int check_cidr(struct ipv4_net cidr, const char *place, struct err *e)
{
	if (cidr.prefix < PREFIX_MIN || cidr.prefix > PREFIX_MAX)
		return spec_err(e, place, "the prefix length /%u is not between /%d and /%d",
			cidr.prefix, PREFIX_MIN, PREFIX_MAX);
	for (size_t i = 0; i < ARRAY_LEN(reserved); i++)
		if (ipv4_net_overlaps(cidr, reserved[i].net))
			return spec_err(e, place, "%s", reserved[i].why);
	return 0;
}

/* Refuses an address that no machine in the subnet can have. */
static int check_host(struct ipv4_net cidr, uint32_t addr, const char *place, struct err *e)
{
	char text[IPV4_TEXT_MAX], net[NET_TEXT_MAX];

	ipv4_text(addr, text);
	ipv4_net_text(cidr, net);
	if (!ipv4_net_has(cidr, addr))
		return spec_err(e, place, "%s is outside the subnet %s", text, net);
	if (addr == cidr.addr)
		return spec_err(e, place, "%s is the address of the subnet %s itself", text, net);
	if (addr == ipv4_net_last(cidr))
		return spec_err(e, place, "%s is the broadcast address of %s", text, net);
	return 0;
}

static int check_range(const struct subnet_spec *sub, size_t k, const char *place, struct err *e)
{
	const struct dhcp_range *r = &sub->dhcp_ranges[k];
	char start[IPV4_TEXT_MAX], end[IPV4_TEXT_MAX];

	ipv4_text(r->start, start);
	ipv4_text(r->end, end);
	if (check_host(sub->cidr, r->start, SPEC_PLACE("%s.start", place), e) < 0 ||
		check_host(sub->cidr, r->end, SPEC_PLACE("%s.end", place), e) < 0)
		return -1;
	if (r->start > r->end)
		return spec_err(e, place, "its start %s comes after its end %s", start, end);
	if (sub->gateway && sub->gateway >= r->start && sub->gateway <= r->end)
		return spec_err(e, place, "%s-%s contains the gateway %s", start, end,
			ipv4_text(sub->gateway, (char[IPV4_TEXT_MAX]){0}));
	for (size_t other = 0; other < k; other++)
		if (r->start <= sub->dhcp_ranges[other].end &&
			sub->dhcp_ranges[other].start <= r->end)
			return spec_err(
				e, place, "%s-%s overlaps dhcp_ranges[%zu]", start, end, other);
	return 0;
}

static int check_subnet(const struct subnet_spec *sub, size_t i, size_t k, struct err *e)
{
	if (check_cidr(sub->cidr, SPEC_PLACE(PLACE_OF_SUBNET ".cidr", i, k), e) < 0)
		return -1;
	if (sub->gateway && check_host(sub->cidr, sub->gateway,
				    SPEC_PLACE(PLACE_OF_SUBNET ".gateway", i, k), e) < 0)
		return -1;
	if (sub->snat && !sub->gateway)
		return spec_err(e, SPEC_PLACE(PLACE_OF_SUBNET ".snat", i, k), "needs a gateway");
	for (size_t r = 0; r < sub->n_dhcp_ranges; r++)
		if (check_range(sub, r, SPEC_PLACE(PLACE_OF_SUBNET ".dhcp_ranges[%zu]", i, k, r),
			    e) < 0)
			return -1;
	return 0;
}

/* Compares subnet k of vnet i with all that are listed before it, in any vnet. */
static int check_overlap(const struct networks_spec *net, size_t i, size_t k, struct err *e)
{
	struct ipv4_net cidr = net->vnets[i].subnets[k].cidr;
	char mine[NET_TEXT_MAX], theirs[NET_TEXT_MAX];

	for (size_t vi = 0; vi <= i; vi++) {
		size_t n = vi < i ? net->vnets[vi].n_subnets : k;

		for (size_t sk = 0; sk < n; sk++) {
			struct ipv4_net other = net->vnets[vi].subnets[sk].cidr;

			if (ipv4_net_overlaps(cidr, other))
				return spec_err(e, SPEC_PLACE(PLACE_OF_SUBNET ".cidr", i, k),
					"%s overlaps %s of " PLACE_OF_SUBNET,
					ipv4_net_text(cidr, mine), ipv4_net_text(other, theirs), vi,
					sk);
		}
	}
	return 0;
}

/* The length of a label in DNS is six bits. */
#define LABEL_MAX 63

static int check_domains(const struct egress_allow *allow, size_t i, struct err *e)
{
	for (size_t k = 0; k < allow->n_domains; k++)
		for (const char *part = allow->domains[k]; *part; part += *part == '.') {
			size_t len = strcspn(part, ".");

			if (len > LABEL_MAX)
				return spec_err(e,
					SPEC_PLACE("networks.vnets[%zu].egress.allow.domains[%zu]",
						i, k),
					"has a part of %zu characters; at most %d are allowed", len,
					LABEL_MAX);
			part += len;
		}
	return 0;
}

static int check_egress(const struct vnet_spec *vnet, size_t i, struct err *e)
{
	const struct egress_spec *out = &vnet->egress;
	bool snat = false;

	for (size_t k = 0; k < vnet->n_subnets; k++)
		snat |= vnet->subnets[k].snat;
	if (out->mode == SPEC_EGRESS_DENY)
		return 0;
	if (out->mode == SPEC_EGRESS_ALLOW && out->allow.n_domains + out->allow.n_cidrs == 0)
		return spec_err(e, SPEC_PLACE("networks.vnets[%zu].egress.allow", i),
			"names no domain and no network; for none write \"deny\"");
	if (check_domains(&out->allow, i, e) < 0)
		return -1;
	return snat ? 0
		    : spec_err(e, SPEC_PLACE("networks.vnets[%zu].egress", i),
			      "needs a subnet with snat: true; without one there is no way out");
}

int spec_check_networks(const struct sandbox_spec *s, struct err *e)
{
	const struct networks_spec *net = &s->networks;

	for (size_t i = 0; i < net->n_vnets; i++) {
		const struct vnet_spec *vnet = &net->vnets[i];

		for (size_t k = 0; k < i; k++)
			if (strcmp(net->vnets[k].alias, vnet->alias) == 0)
				return spec_err(e, SPEC_PLACE("networks.vnets[%zu].alias", i),
					"\"%s\" is already the alias of networks.vnets[%zu]",
					vnet->alias, k);
		for (size_t k = 0; k < vnet->n_subnets; k++)
			if (check_subnet(&vnet->subnets[k], i, k, e) < 0 ||
				check_overlap(net, i, k, e) < 0)
				return -1;
		if (check_egress(vnet, i, e) < 0)
			return -1;
	}
	return 0;
}

/* Whether the VM of that name has a NIC in there. */
static bool has_nic_in(const struct sandbox_spec *s, const char *vm, size_t vnet)
{
	for (size_t i = 0; i < s->n_vms; i++)
		for (size_t k = 0; k < s->vms[i].n_nics; k++)
			if (s->vms[i].nics[k].vnet_index == vnet &&
				strcasecmp(s->vms[i].name, vm) == 0)
				return true;
	return false;
}

/* A VM as the default route: two would contradict each other, and DHCP has to name it. */
static int check_gateway_vms(const struct sandbox_spec *s, struct err *e)
{
	for (size_t i = 0; i < s->networks.n_vnets; i++) {
		const struct vnet_spec *vnet = &s->networks.vnets[i];
		const char *place = SPEC_PLACE("networks.vnets[%zu].gateway_vm", i);

		if (!vnet->gateway_vm)
			continue;
		if (!has_nic_in(s, vnet->gateway_vm, i))
			return spec_err(e, place, "no VM \"%s\" has a NIC in \"%s\"",
				vnet->gateway_vm, vnet->alias);
		if (!vnet->dhcp || !vnet->n_subnets)
			return spec_err(e, place,
				"only DHCP tells VMs of it: this network needs dhcp and a subnet");
		for (size_t k = 0; k < vnet->n_subnets; k++)
			if (vnet->subnets[k].gateway)
				return spec_err(e, place,
					"subnets[%zu] has a gateway already, which is moat itself; "
					"leave that out",
					k);
	}
	return 0;
}

static int check_nic_ipv4(const struct networks_spec *net, const struct nic_spec *nic,
	const char *place, struct err *e)
{
	const struct vnet_spec *vnet;
	char text[IPV4_TEXT_MAX];

	if (!mac_is_set(nic->mac))
		return spec_err(e, place, "needs mac as well: DHCP gives the address to that NIC");
	if (net->mode == SPEC_NET_AUTO)
		return spec_err(e, place,
			"networks is \"auto\" and has its own addresses; describe the network to "
			"choose them");
	if (net->mode == SPEC_NET_EXISTING)
		return spec_err(e, place,
			"networks is null: the addresses of a server's own networks are its "
			"business");
	if (net->mode != SPEC_NET_VNETS)
		return 0;
	vnet = &net->vnets[nic->vnet_index];
	ipv4_text(nic->ipv4, text);
	for (size_t i = 0; i < vnet->n_subnets; i++) {
		if (!ipv4_net_has(vnet->subnets[i].cidr, nic->ipv4))
			continue;
		if (nic->ipv4 == vnet->subnets[i].gateway)
			return spec_err(e, place, "%s is the gateway of its subnet", text);
		return check_host(vnet->subnets[i].cidr, nic->ipv4, place, e);
	}
	return spec_err(e, place, "%s is outside every subnet of \"%s\"", text, vnet->alias);
}

/* Compares NIC k of VM i with all that are listed before it. */
static int check_nic_unique(const struct sandbox_spec *s, size_t i, size_t k, struct err *e)
{
	const struct nic_spec *nic = &s->vms[i].nics[k];

	for (size_t vi = 0; vi <= i; vi++) {
		size_t n = vi < i ? s->vms[vi].n_nics : k;

		for (size_t nk = 0; nk < n; nk++) {
			const struct nic_spec *other = &s->vms[vi].nics[nk];

			if (mac_is_set(nic->mac) && mac_equal(nic->mac, other->mac))
				return spec_err(e, SPEC_PLACE("vms[%zu].nics[%zu].mac", i, k),
					"%s is already the MAC of vms[%zu].nics[%zu]",
					mac_text(nic->mac, (char[MAC_TEXT_MAX]){0}), vi, nk);
			if (nic->ipv4 && nic->ipv4 == other->ipv4 &&
				strcmp(nic->vnet, other->vnet) == 0)
				return spec_err(e, SPEC_PLACE("vms[%zu].nics[%zu].ipv4", i, k),
					"%s is already the address of vms[%zu].nics[%zu]",
					ipv4_text(nic->ipv4, (char[IPV4_TEXT_MAX]){0}), vi, nk);
		}
	}
	return 0;
}

static int check_nic(const struct sandbox_spec *s, size_t i, size_t k, struct err *e)
{
	const struct networks_spec *net = &s->networks;
	const struct nic_spec *nic = &s->vms[i].nics[k];

	if (net->mode != SPEC_NET_EXISTING && nic->vnet_index == SPEC_NO_VNET)
		return spec_err(e, SPEC_PLACE("vms[%zu].nics[%zu].vnet", i, k),
			"no network has the alias \"%s\"%s", nic->vnet,
			net->mode == SPEC_NET_AUTO ? "; networks is \"auto\", and its one network "
						     "is \"" SPEC_AUTO_ALIAS "\""
						   : "");
	if (nic->ipv4 &&
		check_nic_ipv4(net, nic, SPEC_PLACE("vms[%zu].nics[%zu].ipv4", i, k), e) < 0)
		return -1;
	if (nic->vlan_tag && net->mode != SPEC_NET_EXISTING &&
		!net->vnets[nic->vnet_index].vlan_aware)
		return spec_err(e, SPEC_PLACE("vms[%zu].nics[%zu].vlan_tag", i, k),
			"the network \"%s\" is not vlan_aware", nic->vnet);
	return check_nic_unique(s, i, k, e);
}

int spec_check_nics(const struct sandbox_spec *s, struct err *e)
{
	for (size_t i = 0; i < s->n_vms; i++) {
		if (s->vms[i].n_nics > 0 && s->networks.mode == SPEC_NET_NONE)
			return spec_err(e, SPEC_PLACE("vms[%zu].nics", i),
				"the sandbox has no networks to plug into");
		for (size_t k = 0; k < s->vms[i].n_nics; k++)
			if (check_nic(s, i, k, e) < 0)
				return -1;
	}
	return check_gateway_vms(s, e);
}
