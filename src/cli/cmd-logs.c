#include "cli/stream.h"
#include "util/auto.h"

static int cmd_logs_run(struct cli *cli, struct err *e)
{
	const struct args *a = cli->args;
	const char *kind = args_has(a, "qemu") ? "qemu" : "console";
	auto_json json_t *args = NULL, *result = NULL;
	auto_stream struct stream s = {.cli = cli, .keep = cli->json};
	struct call call = {.op = "logs", .data = stream_data, .arg = &s};

	if (cli->json && args_has(a, "follow"))
		return args_fail(e, "--json and --follow exclude each other");
	args = cli_target(cli, a->operands[0], e);
	if (!args)
		return -1;
	if (json_object_set_new(args, "kind", json_string(kind)) < 0 ||
		json_object_set_new(args, "follow", json_boolean(args_has(a, "follow"))) < 0)
		return err_oom(e);
	call.args = args;
	if (cli_run(cli, &call, &result, e) < 0 || stream_end(&s, e) < 0)
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
	{0, "vm", "NAME", "of this machine of the sandbox"},
	{0},
};

const struct cmd cmd_logs = {
	.name = "logs",
	.group = "Sandboxes:",
	.synopsis = "SANDBOX",
	.summary = "show the serial console of a machine",
	.about = "On a terminal, control characters are escaped: the guest wrote them.",
	.examples = "  moat logs 3f9c\n"
		    "  moat logs -f --vm router 3f9c\n"
		    "  moat logs --qemu 3f9c",
	.opts = logs_opts,
	.min = 1,
	.max = 1,
	.operand = OPERAND_SANDBOX,
	.flags = CMD_JSON,
	.run = cmd_logs_run,
};
