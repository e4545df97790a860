#include <string.h>

#include "cli/image/made.h"
#include "util/auto.h"

static int image_commit_run(struct cli *cli, struct err *e)
{
	const char *user = args_get(cli->args, "user");
	auto_json json_t *result = NULL;
	json_t *args = json_pack("{s:s, s:s, s:s*, s:s*}", "sandbox", cli->args->operands[0],
		"name", cli->args->operands[1], "vm", args_get(cli->args, "vm"), "user", user);

	if (!args)
		return args_fail(e, "the name is not UTF-8");
	if (cli_request(cli, "image.commit", args, &result, e) < 0)
		return -1;
	if (strcmp(get_str(result, "copied"), "paused") == 0)
		cli_note(cli,
			"its file systems could not be frozen: the VM was paused, and the disk "
			"is as after a power cut");
	return image_print_made(cli, result, e);
}

static const struct opt commit_opts[] = {
	{0, "vm", "NAME", "which VM of the sandbox (default: the first sandbox VM)"},
	{'u', "user", "USER", "the user that commands run as by default (default: as before)"},
	{0},
};
const struct cmd cmd_image_commit = {
	.name = "image commit",
	.synopsis = "SANDBOX IMAGE",
	.summary = "make an image of a VM's disk",
	.about = "A VM that runs goes on. Its disk is copied while its file systems are frozen, "
		 "or, if\n"
		 "moat's runner is not in the guest, while it is paused. VMs that are made from "
		 "the\n"
		 "image get a machine id and SSH host keys of their own.",
	.examples = "  moat image commit demo with-tools\n"
		    "  moat image commit --vm victim demo shop",
	.opts = commit_opts,
	.min = 2,
	.max = 2,
	.operand = OPERAND_SANDBOX,
	.flags = CMD_JSON,
	.run = image_commit_run,
};
