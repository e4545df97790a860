#include <string.h>

#include "cli/cli.h"
#include "cli/net/drawing.h"
#include "cli/terminal/table.h"
#include "util/auto.h"

/* An egress policy as text: "allow example.org 192.0.2.0/24 :443". */
static char *policy_text(const json_t *egress)
{
	static const char *const members[] = {"domains", "cidrs", "ports"};
	const json_t *allow = json_object_get(egress, "allow");
	struct buf b = {0};
	struct err ignored;
	json_t *one;
	size_t i;

	buf_add_str(&b, json_is_string(egress) ? json_string_value(egress) : "allow", &ignored);
	for (unsigned m = 0; m < ARRAY_LEN(members); m++)
		json_array_foreach(json_object_get(allow, members[m]), i, one) {
			if (json_is_integer(one))
				buf_printf(&b, &ignored, " :%d", (int)json_integer_value(one));
			else
				buf_printf(&b, &ignored, " %s", json_string_value(one));
		}
	return buf_take_str(&b);
}

static char *ranges_text(const json_t *ranges)
{
	struct buf b = {0};
	struct err ignored;
	json_t *one;
	size_t i;

	json_array_foreach(ranges, i, one)
		buf_printf(&b, &ignored, "%s%s-%s", i ? "," : "", get_str(one, "start"),
			get_str(one, "end"));
	return buf_take_str(&b);
}

static int add_vnet(struct table *t, const json_t *vnet, struct err *e)
{
	auto_free char *policy = policy_text(json_object_get(vnet, "egress"));
	const json_t *subnets = json_object_get(vnet, "subnets"), *sub;
	const char *dhcp = json_is_true(json_object_get(vnet, "dhcp")) ? "on" : "off";
	size_t i;

	if (!json_array_size(subnets))
		return table_row(t,
			(const char *[]){get_str(vnet, "alias"), "-", "-", dhcp, "-", policy}, e);
	json_array_foreach(subnets, i, sub) {
		auto_free char *ranges = ranges_text(json_object_get(sub, "dhcp_ranges"));
		const char *gateway = get_str(sub, "gateway");
		bool snat = json_is_true(json_object_get(sub, "snat"));

		if (table_row(t,
			    (const char *[]){get_str(vnet, "alias"), get_str(sub, "cidr"),
				    *gateway ? gateway : "-",
				    *dhcp == 'o' && ranges && *ranges ? ranges : dhcp,
				    snat ? "yes" : "no", snat ? policy : "deny"},
			    e) < 0)
			return -1;
	}
	return 0;
}

static int print_vnets(struct cli *cli, const json_t *net, struct err *e)
{
	static const char *const heads[] = {
		"NETWORK", "SUBNET", "GATEWAY", "DHCP", "SNAT", "EGRESS", NULL};
	auto_table struct table *t = NULL;
	const json_t *one;
	size_t i;

	if (table_new(heads, &t, e) < 0)
		return -1;
	json_array_foreach(json_object_get(net, "vnets"), i, one)
		if (add_vnet(t, one, e) < 0)
			return -1;
	table_print(t, &cli->screen, stdout);
	return 0;
}

static int print_nics(struct cli *cli, const json_t *net, struct err *e)
{
	static const char *const heads[] = {
		"VM", "NIC", "NETWORK", "MAC", "ADDRESS", "LEASE", NULL};
	auto_table struct table *t = NULL;
	const json_t *nic;
	size_t i;

	if (table_new(heads, &t, e) < 0)
		return -1;
	json_array_foreach(json_object_get(net, "nics"), i, nic) {
		const char *ipv4 = get_str(nic, "ipv4"), *lease = get_str(nic, "lease");
		char number[24];

		snprintf(number, sizeof(number), "%.0f", get_num(nic, "nic"));
		if (table_row(t,
			    (const char *[]){get_str(nic, "vm"), number, get_str(nic, "vnet"),
				    get_str(nic, "mac"), *ipv4 ? ipv4 : "-", *lease ? lease : "-"},
			    e) < 0)
			return -1;
	}
	table_print(t, &cli->screen, stdout);
	return 0;
}

static int cmd_net_run(struct cli *cli, struct err *e)
{
	const struct args *a = cli->args;
	auto_json json_t *args = cli_target(cli, a->operands[0], e), *net = NULL;
	bool dot = args_has(a, "dot"), svg = args_has(a, "svg");

	if (!args)
		return -1;
	if (dot + svg + cli->json > 1)
		return args_fail(e, "--dot, --svg and --json exclude each other");
	if (cli_request(cli, "net.show", take_ptr(&args), &net, e) < 0)
		return -1;
	if (cli->json)
		return print_json(&cli->screen, net, e);
	if (dot || svg) {
		auto_buf struct buf text = {0};

		if ((dot ? drawing_dot(net, &text, e) : drawing_svg(net, &text, e)) < 0 ||
			write_out(1, buf_bytes(&text), e) < 0)
			return -1;
		return EXIT_OK;
	}
	if (!json_array_size(json_object_get(net, "vnets")) &&
		!json_array_size(json_object_get(net, "nics")))
		cli_note(cli, "the networks of this sandbox are not made by moat");
	if (print_vnets(cli, net, e) < 0)
		return -1;
	putchar('\n');
	return print_nics(cli, net, e) < 0 ? -1 : EXIT_OK;
}

static const struct opt net_opts[] = {
	{0, "dot", NULL, "print a graph for Graphviz"},
	{0, "svg", NULL, "print a picture"},
	{0},
};

const struct cmd cmd_net = {
	.name = "net",
	.group = "Networks:",
	.synopsis = "SANDBOX",
	.summary = "show the networks of a sandbox: who is where, and what may get out",
	.about = "LEASE is the address that DHCP has given out. What was refused is in\n"
		 "`moat logs --net`.",
	.examples = "  moat net 3f9c\n"
		    "  moat net --svg 3f9c > range.svg\n"
		    "  moat net --dot 3f9c | dot -Tpdf > range.pdf",
	.opts = net_opts,
	.min = 1,
	.max = 1,
	.operand = OPERAND_SANDBOX,
	.flags = CMD_JSON,
	.run = cmd_net_run,
};
