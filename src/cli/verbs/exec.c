#include "cli/exec.h"

static int cmd_exec_run(struct cli *cli, struct err *e)
{
	const char **operands = cli->args->operands;

	return exec_words(cli, operands[0], operands + 1, e);
}

static const struct opt exec_opts[] = {
	EXEC_OPTS,
	{0},
};

const struct cmd cmd_exec = {
	.name = "exec",
	.group = "Sandboxes:",
	.synopsis = "SANDBOX [--] COMMAND [ARGUMENT...]",
	.summary = "run a command in a sandbox",
	.about =
		"The command is started as it is, without a shell, and its exit code becomes "
		"ours:\n"
		"124 when its time was up, 126 or 127 when it could not be started, 125 when moat\n"
		"itself failed. Without --tty, control characters in the output are escaped when\n"
		"they would reach a terminal. With --json, the last 10 MiB of each stream are "
		"kept;\n"
		"stdout_bytes and stderr_bytes tell how much there was. An interrupt kills the\n"
		"command.",
	.examples = "  moat exec 3f9c uname -a\n"
		    "  moat exec -u root -w /srv 3f9c sh -c 'ls | wc -l'\n"
		    "  moat exec -i 3f9c tar xz < src.tar.gz\n"
		    "  moat exec -it 3f9c python3\n"
		    "  moat exec --json --timeout 10 3f9c ./flaky",
	.opts = exec_opts,
	.min = 2,
	.max = OPERANDS_ANY,
	.operand = OPERAND_SANDBOX,
	.flags = CMD_JSON | CMD_COMMAND | CMD_OWN_ERROR,
	.run = cmd_exec_run,
};
