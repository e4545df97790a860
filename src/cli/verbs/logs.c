#include <stdio.h>

#include "cli/stream.h"
#include "cli/terminal/table.h"
#include "util/auto.h"

/* The name shown for refusals that were counted but not listed. */
#define MORE "and more"

static const char *str_or(const json_t *r, const char *name, const char *otherwise)
{
	const char *text = get_str(r, name);

	return *text ? text : otherwise;
}

static int add_name(struct table *t, const json_t *r, struct err *e)
{
	char count[24];

	snprintf(count, sizeof(count), "%.0f", get_num(r, "count"));
	return table_row(t,
		(const char *[]){get_str(r, "vnet"), "-", str_or(r, "name", MORE), "dns", "-",
			count, get_str(r, "why")},
		e);
}

static int add_connection(struct table *t, const json_t *r, struct err *e)
{
	char count[24], port[24] = "-", number[24] = "-";

	snprintf(count, sizeof(count), "%.0f", get_num(r, "count"));
	if (json_is_integer(json_object_get(r, "port")))
		snprintf(port, sizeof(port), "%.0f", get_num(r, "port"));
	if (json_is_integer(json_object_get(r, "protocol")))
		snprintf(number, sizeof(number), "%.0f", get_num(r, "protocol"));
	return table_row(t,
		(const char *[]){get_str(r, "vnet"), str_or(r, "from", "-"), str_or(r, "to", MORE),
			str_or(r, "protocol", number), port, count, "not allowed"},
		e);
}

/* Prints what a sandbox's networks refused: names that guests looked up, and destinations of
 * packets. */
static int print_refused(struct cli *cli, struct err *e)
{
	static const char *const heads[] = {
		"NETWORK", "FROM", "TO", "PROTOCOL", "PORT", "COUNT", "WHY", NULL};
	auto_json json_t *args = cli_target(cli, cli->args->operands[0], e), *net = NULL;
	auto_table struct table *t = NULL;
	const json_t *refused;
	json_t *one;
	size_t i;

	if (!args)
		return -1;
	json_object_del(args, "vm"); /* the networks belong to the sandbox, not to a VM */
	if (cli_request(cli, "net.show", take_ptr(&args), &net, e) < 0)
		return -1;
	refused = json_object_get(net, "refused");
	if (cli->json)
		return print_json(&cli->screen, refused, e);
	if (table_new(heads, &t, e) < 0)
		return -1;
	json_array_foreach(json_object_get(refused, "names"), i, one)
		if (add_name(t, one, e) < 0)
			return -1;
	json_array_foreach(json_object_get(refused, "connections"), i, one)
		if (add_connection(t, one, e) < 0)
			return -1;
	table_print(t, &cli->screen, stdout);
	return EXIT_OK;
}

static int cmd_logs_run(struct cli *cli, struct err *e)
{
	const struct args *a = cli->args;
	const char *kind = args_has(a, "qemu")      ? "qemu"
			   : args_has(a, "service") ? "service"
						    : "console";
	auto_json json_t *args = NULL, *result = NULL;
	auto_stream struct stream s = {.cli = cli, .keep = cli->json};
	struct call call = {.op = "logs", .data = stream_data, .arg = &s};

	if (args_has(a, "net"))
		return args_has(a, "follow") || args_has(a, "qemu") || args_has(a, "service")
			       ? args_fail(e, "--net excludes --follow, --qemu and --service")
			       : print_refused(cli, e);
	if (args_has(a, "service") && args_has(a, "qemu"))
		return args_fail(e, "--service and --qemu exclude each other");
	if (cli->json && args_has(a, "follow"))
		return args_fail(e, "--json and --follow exclude each other");
	args = cli_target(cli, a->operands[0], e);
	if (!args)
		return -1;
	if (json_object_set_new(args, "kind", json_string(kind)) < 0 ||
		json_object_set_new(args, "follow", json_boolean(args_has(a, "follow"))) < 0)
		return err_oom(e);
	call.args = args;
	if (cli_call(cli, &call, &result, e) < 0 || stream_end(&s, e) < 0)
		return -1;
	if (!cli->json)
		return EXIT_OK;
	if (stream_to_json(&s.kept[0], result, "log", e) < 0)
		return -1;
	return print_json(&cli->screen, result, e);
}

static const struct opt logs_opts[] = {
	{'f', "follow", NULL, "go on as the log grows, until interrupted"},
	{0, "qemu", NULL, "QEMU's own messages instead of the serial console"},
	{0, "service", NULL, "what the service of a container image has written, instead"},
	{0, "net", NULL, "what the sandbox's networks refused, instead"},
	{0, "vm", "NAME", "of this VM of the sandbox"},
	{0},
};

const struct cmd cmd_logs = {
	.name = "logs",
	.group = "Sandboxes:",
	.synopsis = "SANDBOX",
	.summary = "show the serial console of a VM, or what the networks refused",
	.about = "On a terminal, control characters are escaped: the guest wrote them.",
	.examples = "  moat logs 3f9c\n"
		    "  moat logs -f --vm router 3f9c\n"
		    "  moat logs --qemu 3f9c\n"
		    "  moat logs --service -f 3f9c\n"
		    "  moat logs --net 3f9c",
	.opts = logs_opts,
	.min = 1,
	.max = 1,
	.operand = OPERAND_SANDBOX,
	.flags = CMD_JSON,
	.run = cmd_logs_run,
};
