#include "cli/cli.h"
#include "util/auto.h"

/* Sandboxes by name, all, or all with certain labels. */
static int rm_args(struct cli *cli, json_t **ret, struct err *e)
{
	const struct args *a = cli->args;
	bool all = args_has(a, "all"), labels = args_has(a, "label");
	auto_json json_t *list = json_array(), *pairs = json_object();

	if (!list || !pairs)
		return err_oom(e);
	if ((a->n_operands > 0) + all + labels != 1)
		return args_fail(e, "give sandboxes, or --all, or --label NAME=VALUE");
	if (all)
		return json_make(ret, e, "{s:b}", "all", 1);
	if (labels) {
		if (args_pairs(a, "label", false, pairs, e) < 0)
			return -1;
		return json_make(ret, e, "{s:O}", "labels", pairs);
	}
	for (unsigned i = 0; i < a->n_operands; i++)
		if (json_array_append_new(list, json_string(a->operands[i])) < 0)
			return args_fail(e, "a sandbox's name is not UTF-8");
	return json_make(ret, e, "{s:O}", "sandboxes", list);
}

static int cmd_rm_run(struct cli *cli, struct err *e)
{
	auto_json json_t *result = NULL;
	const json_t *id, *removed;
	json_t *args = NULL;
	size_t i;

	if (rm_args(cli, &args, e) < 0 || cli_request(cli, "rm", args, &result, e) < 0)
		return -1;
	if (cli->json)
		return print_json(&cli->screen, result, e);
	removed = json_object_get(result, "removed");
	json_array_foreach(removed, i, id)
		puts(json_is_string(id) ? json_string_value(id) : "?");
	if (json_array_size(removed) == 0)
		cli_note(cli, "there was nothing to remove");
	return EXIT_OK;
}

static const struct opt rm_opts[] = {
	{'a', "all", NULL, "all sandboxes, whoever made them"},
	{'l', "label", "NAME=VALUE", "all that carry this label (repeated: all of the labels)"},
	{0},
};

const struct cmd cmd_rm = {
	.name = "rm",
	.group = "Sandboxes:",
	.synopsis = "SANDBOX...",
	.summary = "remove sandboxes with their VMs and disks, and print their ids",
	.about = "A sandbox is named by its id or by the first characters of it, at least four.\n"
		 "If one of those that are named does not exist, none is removed.",
	.examples = "  moat rm 3f9c\n"
		    "  moat rm --all\n"
		    "  moat rm --label user=kim",
	.opts = rm_opts,
	.max = OPERANDS_ANY,
	.operand = OPERAND_SANDBOXES,
	.flags = CMD_JSON,
	.run = cmd_rm_run,
};
