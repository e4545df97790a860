#include <string.h>

#include "cli/cli.h"
#include "cli/terminal/table.h"
#include "util/auto.h"
#include "util/str.h"

enum { PORT_MAX = 65535 };

static int print_one(struct cli *cli, const json_t *f, struct err *e)
{
	if (cli->json)
		return print_json(&cli->screen, f, e) < 0 ? -1 : EXIT_OK;
	printf("%s:%.0f\n", get_str(f, "host"), get_num(f, "host_port"));
	return EXIT_OK;
}

static int list(struct cli *cli, json_t *args, struct err *e)
{
	static const char *const heads[] = {"HOST", "VM", "PORT", NULL};
	auto_json json_t *net = NULL;
	auto_table struct table *t = NULL;
	json_t *all, *f;
	size_t i;

	if (cli_request(cli, "net.show", args, &net, e) < 0)
		return -1;
	all = json_object_get(net, "forwards");
	if (cli->json) {
		auto_json json_t *doc = json_pack("{s:O}", "forwards", all);

		return print_json(&cli->screen, doc, e) < 0 ? -1 : EXIT_OK;
	}
	if (table_new(heads, &t, e) < 0)
		return -1;
	json_array_foreach(all, i, f) {
		char host[64], port[24];

		snprintf(host, sizeof(host), "%.40s:%.0f", get_str(f, "host"),
			get_num(f, "host_port"));
		snprintf(port, sizeof(port), "%.0f", get_num(f, "port"));
		if (table_row(t, (const char *[]){host, get_str(f, "vm"), port}, e) < 0)
			return -1;
	}
	table_print(t, &cli->screen, stdout);
	return EXIT_OK;
}

/* Reads "80" or "80:8080". */
static int read_ports(const char *text, uint64_t *ret_port, uint64_t *ret_host, struct err *e)
{
	auto_free char *port = NULL;
	const char *colon = strchr(text, ':');

	*ret_host = 0;
	if (str_dup(text, &port, e) < 0)
		return -1;
	if (colon) {
		port[colon - text] = 0;
		if (str_to_u64(colon + 1, 1, PORT_MAX, ret_host, e) < 0)
			return args_fail(e, "\"%s\" is not PORT or PORT:HOSTPORT", text);
	}
	if (str_to_u64(port, 1, PORT_MAX, ret_port, e) < 0)
		return args_fail(e, "\"%s\" is not PORT or PORT:HOSTPORT", text);
	return 0;
}

static int cmd_forward_run(struct cli *cli, struct err *e)
{
	const struct args *a = cli->args;
	auto_json json_t *args = cli_target(cli, a->operands[0], e), *result = NULL;
	const char *ports = a->operands[a->n_operands - 1];
	uint64_t port, host_port = 0;

	if (!args)
		return -1;
	if (args_has(a, "remove")) {
		if (a->n_operands != 1)
			return args_fail(e, "--remove takes the port on the host, and no other");
		if (args_number(a, "remove", PORT_MAX, &host_port, e) < 0)
			return -1;
		json_object_set_new(args, "host_port", json_integer((json_int_t)host_port));
		return cli_request(cli, "net.unforward", take_ptr(&args), NULL, e) < 0 ? -1
										       : EXIT_OK;
	}
	if (a->n_operands == 1)
		return list(cli, take_ptr(&args), e);
	if (read_ports(ports, &port, &host_port, e) < 0)
		return -1;
	json_object_set_new(args, "port", json_integer((json_int_t)port));
	json_object_set_new(args, "host_port", json_integer((json_int_t)host_port));
	if (a->n_operands == 3 && json_object_set_new(args, "vm", json_string(a->operands[1])) < 0)
		return args_fail(e, "the VM's name is not UTF-8: %s", a->operands[1]);
	if (cli_request(cli, "net.forward", take_ptr(&args), &result, e) < 0)
		return -1;
	return print_one(cli, result, e);
}

static const struct opt forward_opts[] = {
	{0, "remove", "HOSTPORT", "forward that port of this host no longer"},
	{0},
};

const struct cmd cmd_forward = {
	.name = "forward",
	.group = "Networks:",
	.synopsis = "SANDBOX [[VM] PORT[:HOSTPORT]]",
	.summary = "let a port of this host's loopback lead to a VM's TCP port, and print it",
	.about =
		"Without HOSTPORT, a free port is chosen; without VM, the sandbox's default VM is\n"
		"used; without PORT, the forwarded ports are listed. It stays until --remove or\n"
		"the end of the sandbox. Everybody on this host can connect to it.",
	.examples = "  moat forward 3f9c 80\n"
		    "  moat forward 3f9c victim 22:2222\n"
		    "  moat forward --remove 2222 3f9c",
	.opts = forward_opts,
	.min = 1,
	.max = 3,
	.operand = OPERAND_SANDBOX,
	.flags = CMD_JSON,
	.run = cmd_forward_run,
};
