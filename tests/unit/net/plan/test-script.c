/*
 * The texts that are made of a network spec (for ip, nft and dnsmasq, one after the other), against
 * tests/golden/net/NAME.txt. See golden.h.
 */
#include "net/plan/nftables.h"
#include "net/plan/script.h"

#include "golden.h"
#include "spec/yaml.h"
#include "util/auto.h"
#include "util/json.h"

#define ADDR(a) ipv4_text(a, (char[IPV4_TEXT_MAX]){0})

static const struct row {
	const char *name, *spec;
} rows[] = {
	{"auto", "vms: [{source: tiny}, {name: b, source: tiny}]"},
	{"two-subnets",
		"networks: {vnets: [{alias: lan, subnets: [{cidr: 10.1.0.0/24, gateway: 10.1.0.1, "
		"dhcp_ranges: [{start: 10.1.0.10, end: 10.1.0.11}]}, {cidr: 10.2.0.0/29}]}]}\n"
		"vms: [{source: tiny}, {name: b, source: tiny, nics: [{vnet: lan, mac: "
		"'52:54:00:00:00:01', ipv4: 10.2.0.6}, {vnet: lan}, {vnet: lan}]}]"},
	{"router",
		"networks: {vnets: [{alias: outside, subnets: [{cidr: 192.168.50.0/24}]}, {alias: "
		"'in side', dhcp: false, subnets: [{cidr: 10.99.0.0/24, gateway: 10.99.0.1}]}]}\n"
		"vms: [{source: tiny, nics: [{vnet: outside}, {vnet: in side}]}]"},
	{"gateway-vm",
		"networks: {vnets: [{alias: lan, gateway_vm: Router, subnets: [{cidr: 10.1.0.0/24, "
		"dhcp_ranges: [{start: 10.1.0.10, end: 10.1.0.99}]}]}]}\n"
		"vms: [{source: tiny}, {name: router, source: tiny, nics: [{vnet: lan, mac: "
		"'52:54:00:00:00:01', ipv4: 10.1.0.1}]}]"},
	{"bare", "networks: {vnets: [{alias: wire}]}\nvms: [{source: tiny}]"},
	{"open", "networks: {vnets: [{alias: lan, egress: open, subnets: [{cidr: 10.1.0.0/24, "
		 "gateway: 10.1.0.1, snat: true}]}]}\nvms: [{source: tiny}]"},
	{"allow",
		"networks: {vnets: [{alias: lan, egress: {allow: {domains: [example.org], cidrs: "
		"[192.0.2.0/24, 10.5.0.0/16, 0.0.0.0/0], ports: [80, 443, 80]}}, subnets: [{cidr: "
		"10.1.0.0/24, gateway: 10.1.0.1, snat: true}, {cidr: 10.3.0.0/24, gateway: "
		"10.3.0.1}]}]}\nvms: [{source: tiny}]"},
	{"vlans", "networks: {vnets: [{alias: lan, vlan_aware: true}, {alias: other}]}\n"
		  "vms: [{source: tiny, nics: [{vnet: lan, vlan_tag: 7}, {vnet: lan}, {vnet: "
		  "other}]}]"},
	/* Two VLANs, and no NIC that sees both: two bridges. */
	{"apart", "networks: {vnets: [{alias: lan, vlan_aware: true}]}\n"
		  "vms: [{source: tiny, nics: [{vnet: lan, vlan_tag: 7}, {vnet: lan, vlan_tag: "
		  "4094}]}, {name: b, source: tiny, nics: [{vnet: lan, vlan_tag: 7}]}]"},
	/* The first two subnets have gateways, so moat routes between them; the third has none. */
	{"routed",
		"networks: {vnets: [{alias: lan, subnets: [{cidr: 10.1.0.0/24, gateway: 10.1.0.1}, "
		"{cidr: 10.2.0.0/24, gateway: 10.2.0.1}, {cidr: 10.3.0.0/24}]}, {alias: other, "
		"subnets: [{cidr: 10.4.0.0/24, gateway: 10.4.0.1}]}]}\nvms: [{source: tiny}]"},
	/* A subnet of the spec takes the usual link to pasta: another one is chosen. */
	{"link", "networks: {vnets: [{alias: lan, egress: open, subnets: [{cidr: 192.0.0.0/16, "
		 "gateway: 192.0.0.1, snat: true}]}]}\nvms: [{source: tiny}]"},
};

static int texts_of(const struct row *row, struct buf *b, struct err *e)
{
	auto_json json_t *j = NULL;
	auto_spec struct sandbox_spec *spec = NULL;
	auto_net_plan struct net_plan *plan = NULL;

	if (spec_text_to_json(
		    (struct bytes){(const uint8_t *)row->spec, strlen(row->spec)}, &j, e) < 0 ||
		spec_parse(j, &spec, e) < 0 || net_plan_make(spec, 0x0102030405, &plan, e) < 0)
		return -1;
	if (net_script_links(plan, b, e) < 0 || buf_add_str(b, "---- vlans\n", e) < 0 ||
		net_script_vlans(plan, b, e) < 0 || buf_add_str(b, "---- rules\n", e) < 0 ||
		nftables_rules(plan, b, e) < 0 || buf_add_str(b, "---- arp\n", e) < 0 ||
		nftables_arp_rules(plan, b, e) < 0)
		return -1;
	if (plan->has_egress && buf_printf(b, e, "---- out\n%s to %s\n", ADDR(plan->link_address),
					ADDR(plan->link_gateway)) < 0)
		return -1;
	for (size_t i = 0; i < plan->n_vnets; i++)
		if (plan->vnets[i].dhcp && (buf_printf(b, e, "---- dhcp of %zu\n", i) < 0 ||
						   net_script_dhcp(plan, i, b, e) < 0))
			return -1;
	return 0;
}

static void test_row(const struct row *row)
{
	auto_buf struct buf b = {0};
	char path[300];
	struct err e;

	if (texts_of(row, &b, &e) < 0) {
		tap_ok(0, "%s: %s", row->name, e.msg);
		return;
	}
	snprintf(path, sizeof(path), NET_GOLDEN "/%s.txt", row->name);
	golden_check(&b, path, row->name);
}

int main(void)
{
	for (unsigned i = 0; i < ARRAY_LEN(rows); i++)
		test_row(&rows[i]);
	OK(entries_in(NET_GOLDEN) == ARRAY_LEN(rows)); /* every golden file belongs to a row */
	return tap_done();
}
