#include "cli/cli.h"

static int cmd_detach_run(struct cli *cli, struct err *e)
{
	auto_json json_t *result = NULL;
	json_t *args = cli_target(cli, cli->args->operands[0], e);

	if (!args || cli_request(cli, "detach", args, &result, e) < 0)
		return -1;
	if (cli->json)
		return print_json(&cli->screen, result, e);
	return EXIT_OK;
}

const struct cmd cmd_detach = {
	.name = "detach",
	.group = "Sandboxes:",
	.synopsis = "SANDBOX",
	.summary = "keep a sandbox when the process that made it ends",
	.about = "Use it while an evaluation runs, to look at a sample's sandbox afterwards.",
	.examples = "  moat detach 3f9c",
	.min = 1,
	.max = 1,
	.operand = OPERAND_SANDBOX,
	.flags = CMD_JSON,
	.run = cmd_detach_run,
};
