/* cmd-snapshot.c - `moat snapshot` and `moat restore`, which differ in their operation only. */
#include "cli/cli.h"

static int run_named(struct cli *cli, const char *op, struct err *e)
{
	auto_json json_t *result = NULL;
	json_t *args = cli_target(cli, cli->args->operands[0], e);

	if (!args)
		return -1;
	if (json_object_set_new(args, "name", json_string(cli->args->operands[1])) < 0) {
		json_decref(args);
		return err_set(e, ERR_INVALID, "the snapshot's name is not UTF-8");
	}
	if (cli_ask(cli, op, args, &result, e) < 0)
		return -1;
	if (cli->json)
		return print_json(&cli->screen, result, e);
	return EXIT_OK;
}

static int cmd_snapshot_run(struct cli *cli, struct err *e)
{
	return run_named(cli, "snapshot", e);
}

static int cmd_restore_run(struct cli *cli, struct err *e)
{
	return run_named(cli, "restore", e);
}

const struct cmd cmd_snapshot = {
	.name = "snapshot",
	.group = "Sandboxes:",
	.synopsis = "SANDBOX NAME",
	.summary = "remember a sandbox as it is now",
	.about = "Not every driver can do it; those that cannot say so.",
	.examples = "  moat snapshot 3f9c clean",
	.min = 2,
	.max = 2,
	.operand = OPERAND_SANDBOX,
	.flags = CMD_JSON,
	.run = cmd_snapshot_run,
};

const struct cmd cmd_restore = {
	.name = "restore",
	.group = "Sandboxes:",
	.synopsis = "SANDBOX NAME",
	.summary = "put a sandbox back to a snapshot",
	.examples = "  moat restore 3f9c clean",
	.min = 2,
	.max = 2,
	.operand = OPERAND_SANDBOX,
	.flags = CMD_JSON,
	.run = cmd_restore_run,
};
