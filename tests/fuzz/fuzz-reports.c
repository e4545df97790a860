/*
 * fuzz-reports.c - what a network's holder says of dnsmasq's leases and of nft's sets, and what
 * clients are told of it; and frames of ARP. The first byte chooses: the text of a lease file, the
 * JSON of a set, the holder's whole answer, or a frame.
 */
#include <stdlib.h>
#include <string.h>

#include "net/plan/arp.h"
#include "net/report.h"
#include "spec/net-addr.h"
#include "spec/spec.h"
#include "spec/yaml.h"
#include "util/auto.h"
#include "util/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char spec_text[] =
	"networks: {vnets: [{alias: lan, subnets: [{cidr: 10.1.0.0/24, gateway: 10.1.0.1, "
	"dhcp_ranges: [{start: 10.1.0.10, end: 10.1.0.20}]}]}]}\n"
	"vms: [{source: tiny, nics: [{vnet: lan, mac: '52:54:00:00:00:05', ipv4: 10.1.0.5}]}, "
	"{name: b, source: tiny, nics: [{vnet: lan, mac: '52:54:00:00:00:06'}]}]";

static const struct net_plan *the_plan(void)
{
	static struct net_plan *plan;
	static struct sandbox_spec *spec;
	json_t *j;
	struct err e;

	if (plan)
		return plan;
	if (spec_text_to_json(
		    (struct bytes){(const uint8_t *)spec_text, strlen(spec_text)}, &j, &e) < 0 ||
		spec_parse(j, &spec, &e) < 0 || net_plan_make(spec, 1, &plan, &e) < 0)
		abort();
	json_decref(j);
	return plan;
}

static void check_lease(const json_t *lease)
{
	uint32_t addr;
	struct err e;

	if (!json_is_null(lease) && ipv4_parse(json_string_value(lease), &addr, &e) < 0)
		abort();
}

/* Each member has the type that docs/protocol.md gives it. */
static void check_report(const json_t *report)
{
	json_t *refused = json_object_get(report, "refused"), *one;
	size_t i;

	json_array_foreach(json_object_get(report, "nics"), i, one)
		check_lease(json_object_get(one, "lease"));
	json_array_foreach(json_object_get(report, "forwards"), i, one) {
		if (!json_is_string(json_object_get(one, "address")) ||
			!json_is_string(json_object_get(one, "vm")) ||
			!json_is_integer(json_object_get(one, "host_port")))
			abort();
	}
	json_array_foreach(json_object_get(refused, "connections"), i, one) {
		if (!json_is_string(json_object_get(one, "vnet")) ||
			!json_is_integer(json_object_get(one, "count")))
			abort();
	}
	if (!json_is_array(json_object_get(refused, "names")))
		abort();
}

static void try_report(json_t *said)
{
	auto_json json_t *report = NULL;
	struct err e;

	if (said && report_make(the_plan(), said, &report, &e) == 0)
		check_report(report);
	json_decref(said);
}

/* The holder makes text that is no UTF-8 into such. */
static void try_leases(struct bytes in)
{
	auto_free char *text = strndup((const char *)in.p, in.len);

	try_report(json_pack(
		"{s:[], s:{s:o}}", "names", "leases", the_plan()->vnets[0].gate, json_text(text)));
}

static void try_set(struct bytes in)
{
	json_t *set;
	struct err e;

	if (json_parse_object(in, &set, &e) == 0)
		try_report(json_pack("{s:[], s:o}", "names", "refused", set));
}

static void try_answer(struct bytes in)
{
	json_t *said;
	struct err e;

	if (json_parse_object(in, &said, &e) == 0)
		try_report(said);
}

/* What claims an address asks for none of the same. */
static void try_frame(struct bytes in)
{
	uint8_t ours[ARP_FRAME];

	if (arp_claims(in, 0x0a140002) && arp_claims(in, 0x0a140003))
		abort();
	arp_question((struct mac_addr){{2}}, 0x0a140002, ours);
	if (in.len == sizeof(ours) && memcmp(ours, in.p, sizeof(ours)) == 0 &&
		arp_claims(in, 0x0a140002))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes in;

	if (!size)
		return 0;
	in = (struct bytes){data + 1, size - 1};
	switch (data[0] % 4) {
	case 0:
		try_leases(in);
		break;
	case 1:
		try_set(in);
		break;
	case 2:
		try_answer(in);
		break;
	default:
		try_frame(in);
	}
	return 0;
}
