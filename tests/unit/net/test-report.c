/* What clients are told of a network whose guests, or whose holder, say strange things. */
#include "net/report.h"

#include "spec/yaml.h"
#include "tap.h"
#include "util/auto.h"
#include "util/json.h"

#define MAC "52:54:00:00:00:05"

static const char spec_text[] =
	"networks: {vnets: [{alias: lan, subnets: [{cidr: 10.1.0.0/24, gateway: 10.1.0.1}]}]}\n"
	"vms: [{source: tiny, nics: [{vnet: lan, mac: '" MAC "', ipv4: 10.1.0.5}]}]";

static const struct net_plan *plan;

static json_t *report_of(json_t *said)
{
	json_t *report = NULL;
	struct err e;

	if (report_make(plan, said, &report, &e) < 0)
		printf("# %s\n", e.msg);
	json_decref(said);
	return report;
}

static const struct lease {
	const char *what, *text, *addr;
} leases[] = {
	{"a lease", "1763251200 " MAC " 10.1.0.5 hermit *\n", "10.1.0.5"},
	{"a lease behind others",
		"1763251200 52:54:00:00:00:06 10.1.0.6 * *\n0 " MAC " 10.1.0.7 * *", "10.1.0.7"},
	{"no lease", "", NULL},
	{"another's lease", "1763251200 52:54:00:00:00:06 10.1.0.6 * " MAC "\n", NULL},
	/* A guest chooses the length of its hardware address. */
	{"a longer address of hardware", "1763251200 " MAC ":06:07 10.1.0.5 * *\n", NULL},
	{"no address", "1763251200 " MAC "\n", NULL},
	{"a line without an address", "1763251200 " MAC "\n1763251200 x y\n", NULL},
	{"a number in place of an address", "1763251200 " MAC " 17 * *\n", NULL},
	{"an address that is cut", "1763251200 " MAC " 10.1.0.", NULL},
	{"a MAC on a line of its own", "1763251200\n" MAC " 10.1.0.5 * *\n", NULL},
	{"DHCPv6", "duid 00:01:00:01\n1763251200 " MAC " 2001:db8::1 * *\n", NULL},
};

static void test_leases(void)
{
	for (size_t i = 0; i < ARRAY_LEN(leases); i++) {
		auto_json json_t *report = report_of(
			json_pack("{s:[], s:{s:s}}", "names", "leases", "br0", leases[i].text));
		const json_t *nic = json_array_get(json_object_get(report, "nics"), 0);
		const char *addr = json_string_value(json_object_get(nic, "lease"));

		tap_ok(addr ? leases[i].addr && strcmp(addr, leases[i].addr) == 0 : !leases[i].addr,
			"%s: %s", leases[i].what, addr ? addr : "none");
	}
}

/* The holder serves guests' DNS; should one take it over, it must not take the daemon along. */
static void test_holder(void)
{
	auto_json json_t *report = report_of(json_pack(
		"{s:[], s:[{}, n, {s:i, s:s}, {s:s, s:i, s:i}]}", "names", "forwards", "address", 1,
		"port", "x", "address", "10.1.0.5", "port", 80, "host_port", 8080));
	const json_t *forwards = json_object_get(report, "forwards");

	OK(json_array_size(forwards) == 1);
	STR_IS(json_string_value(json_object_get(json_array_get(forwards, 0), "address")),
		"10.1.0.5");
	json_decref(report);
	report = report_of(json_pack("{s:s}", "names", "lan"));
	OK(!report);
}

int main(void)
{
	struct sandbox_spec *spec;
	json_t *j;
	struct err e;

	if (spec_text_to_json(
		    (struct bytes){(const uint8_t *)spec_text, strlen(spec_text)}, &j, &e) < 0 ||
		spec_parse(j, &spec, &e) < 0 ||
		net_plan_make(spec, 1, (struct net_plan **)&plan, &e) < 0)
		abort();
	test_leases();
	test_holder();
	json_decref(j);
	net_plan_free((struct net_plan *)plan);
	spec_free(spec);
	return tap_done();
}
