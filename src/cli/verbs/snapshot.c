/* snapshot.c - `moat snapshot`, `moat restore`, `moat snapshots` and `moat fork`. */
#include <time.h>

#include "cli/cli.h"
#include "cli/terminal/table.h"
#include "util/auto.h"

static int run_named(struct cli *cli, const char *op, struct err *e)
{
	auto_json json_t *result = NULL;
	json_t *args = cli_target(cli, cli->args->operands[0], e);

	if (!args)
		return -1;
	if (json_object_set_new(args, "name", json_string(cli->args->operands[1])) < 0) {
		json_decref(args);
		return args_fail(e, "the snapshot's name is not UTF-8");
	}
	if (cli_request(cli, op, args, &result, e) < 0)
		return -1;
	if (cli->json)
		return print_json(&cli->screen, result, e);
	return EXIT_OK;
}

static int cmd_snapshot_run(struct cli *cli, struct err *e)
{
	return run_named(cli, args_has(cli->args, "remove") ? "snapshot.rm" : "snapshot", e);
}

static int cmd_restore_run(struct cli *cli, struct err *e)
{
	return run_named(cli, "restore", e);
}

static int add_snapshot(struct table *t, const json_t *one, struct err *e)
{
	char size[24], age[24];

	/* A server does not tell how large a snapshot is. */
	if (json_is_null(json_object_get(one, "size")))
		snprintf(size, sizeof(size), "-");
	else
		text_size(get_num(one, "size"), size);
	text_age((double)time(NULL) - get_num(one, "created_us") / 1e6, age);
	return table_row(t, (const char *[]){get_str(one, "name"), age, size}, e);
}

static int cmd_snapshots_run(struct cli *cli, struct err *e)
{
	static const char *const heads[] = {"NAME", "AGE", "SIZE", NULL};
	auto_json json_t *result = NULL;
	auto_table struct table *t = NULL;
	json_t *args = cli_target(cli, cli->args->operands[0], e);
	const json_t *one;
	size_t i;

	if (!args || cli_request(cli, "snapshots", args, &result, e) < 0)
		return -1;
	if (cli->json)
		return print_json(&cli->screen, result, e);
	if (table_new(heads, &t, e) < 0)
		return -1;
	json_array_foreach(json_object_get(result, "snapshots"), i, one)
		if (add_snapshot(t, one, e) < 0)
			return -1;
	table_print(t, &cli->screen, stdout);
	return EXIT_OK;
}

/* Keeps the copies only after their ids were printed, as `moat up` does. */
static int keep_copies(struct cli *cli, const json_t *copies, struct err *e)
{
	const json_t *one;
	size_t i;

	if (!cli->json)
		json_array_foreach(copies, i, one)
			puts(get_str(one, "sandbox"));
	if (check_stdout(e) < 0)
		return -1;
	json_array_foreach(copies, i, one)
		if (cli_request(cli, "detach",
			    json_pack("{s:s}", "sandbox", get_str(one, "sandbox")), NULL, e) < 0)
			return -1;
	return EXIT_OK;
}

static int cmd_fork_run(struct cli *cli, struct err *e)
{
	auto_json json_t *result = NULL, *labels = json_object();
	json_t *args = cli_target(cli, cli->args->operands[0], e);
	uint64_t n = 1;

	if (!args)
		return -1;
	if (args_number(cli->args, "count", 256, &n, e) < 0 ||
		args_pairs(cli->args, "label", false, labels, e) < 0) {
		json_decref(args);
		return -1;
	}
	json_object_set_new(args, "n", json_integer((json_int_t)n));
	json_object_set_new(args, "wait", json_boolean(!args_has(cli->args, "no-wait")));
	if (json_object_size(labels))
		json_object_set(args, "labels", labels);
	if (cli_request(cli, "fork", args, &result, e) < 0)
		return -1;
	if (cli->json && print_json(&cli->screen, result, e) < 0)
		return -1;
	return keep_copies(cli, json_object_get(result, "sandboxes"), e);
}

static const struct opt snapshot_opts[] = {
	{0, "remove", NULL, "forget the snapshot instead"},
	{0},
};

const struct cmd cmd_snapshots = {
	.name = "snapshots",
	.group = "Sandboxes:",
	.synopsis = "SANDBOX",
	.summary = "list the snapshots of a sandbox",
	.examples = "  moat snapshots 3f9c",
	.min = 1,
	.max = 1,
	.operand = OPERAND_SANDBOX,
	.flags = CMD_JSON,
	.run = cmd_snapshots_run,
};

static const struct opt fork_opts[] = {
	{'n', "count", "N", "how many copies (default: 1)"},
	{'l', "label", "NAME=VALUE", "label the copies so, and not as the original is"},
	{0, "no-wait", NULL, "fail when the host's memory is taken, instead of waiting"},
	{0},
};

const struct cmd cmd_fork = {
	.name = "fork",
	.group = "Sandboxes:",
	.synopsis = "SANDBOX",
	.summary = "make copies of a running sandbox and print their ids",
	.about = "VMs and networks are copied together, with memory and running programs. Inside,\n"
		 "names and addresses stay as they were; each copy is on networks of its own. All\n"
		 "copies are made, or none.",
	.examples = "  moat fork -n 3 3f9c",
	.opts = fork_opts,
	.min = 1,
	.max = 1,
	.operand = OPERAND_SANDBOX,
	.flags = CMD_JSON,
	.run = cmd_fork_run,
};

const struct cmd cmd_snapshot = {
	.name = "snapshot",
	.group = "Sandboxes:",
	.synopsis = "SANDBOX NAME",
	.summary = "save the state of a running sandbox under a name",
	.about = "All its VMs stand still for a moment; memory, running programs, disks and\n"
		 "connections between the VMs are in it. A snapshot of the same name is replaced.\n"
		 "Snapshots go with their sandbox. Not every driver can do it; those that cannot "
		 "say\n"
		 "so.",
	.examples = "  moat snapshot 3f9c clean\n"
		    "  moat snapshot --remove 3f9c clean",
	.opts = snapshot_opts,
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
