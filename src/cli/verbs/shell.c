#include <unistd.h>

#include "cli/exec.h"

extern const char cli_script_login_shell[]; /* login-shell.sh */

static int cmd_shell_run(struct cli *cli, struct err *e)
{
	json_t *args = cli_target(cli, cli->args->operands[0], e);
	struct exec_req req = {.args = args, .input = true, .tty = isatty(STDIN_FILENO)};

	if (!args)
		return -1;
	if (json_object_set_new(args, "argv",
		    json_pack("[s, s, s]", "/bin/sh", "-c", cli_script_login_shell)) < 0) {
		json_decref(args);
		return err_oom(e);
	}
	return exec_run(cli, &req, e);
}

static const struct opt shell_opts[] = {
	{'u', "user", "USER", "as this user, by name or number"},
	{0, "vm", "NAME", "in this VM of the sandbox"},
	{0},
};

const struct cmd cmd_shell = {
	.name = "shell",
	.group = "Sandboxes:",
	.synopsis = "SANDBOX",
	.summary = "open a login shell in a sandbox",
	.about = "With a terminal it is an interactive shell; otherwise it reads commands from\n"
		 "standard input. The exit codes are those of `moat exec`.",
	.examples = "  moat shell 3f9c\n"
		    "  moat shell -u root --vm router 3f9c\n"
		    "  moat shell 3f9c < setup.sh",
	.opts = shell_opts,
	.min = 1,
	.max = 1,
	.operand = OPERAND_SANDBOX,
	.flags = CMD_OWN_ERROR,
	.run = cmd_shell_run,
};
