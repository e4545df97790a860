#include "cli/exec.h"
#include "util/auto.h"

enum { NOT_FOUND = 127 }; /* exit code of a command that does not exist */

static json_t *argv_json(const char *const *words)
{
	auto_json json_t *argv = json_array();

	for (; argv && *words; words++)
		if (json_array_append_new(argv, json_string(*words)) < 0)
			return NULL;
	return take_ptr(&argv);
}

static int cmd_exec_run(struct cli *cli, struct err *e)
{
	const struct args *a = cli->args;
	auto_json json_t *argv = argv_json(a->operands + 1), *env = json_object(), *args = NULL;
	const char *cwd = args_get(a, "workdir");
	struct exec_req req = {.input = args_has(a, "interactive"), .tty = args_has(a, "tty")};
	int code;

	if (!argv || !env)
		return args_fail(e, "the command is not UTF-8");
	if (cli->json && req.tty)
		return args_fail(e, "--json and --tty exclude each other");
	if (args_seconds(a, "timeout", &req.timeout, e) < 0 ||
		args_pairs(a, "env", true, env, e) < 0)
		return -1;
	args = cli_target(cli, a->operands[0], e);
	if (!args)
		return -1;
	if (json_object_set(args, "argv", argv) < 0)
		return err_oom(e);
	if (cwd && json_object_set_new(args, "cwd", json_string(cwd)) < 0)
		return args_fail(e, "--workdir: not UTF-8");
	req.args = take_ptr(&args);
	req.env = take_ptr(&env);
	code = exec_run(cli, &req, e);
	if (code == NOT_FOUND && a->operands[1][0] == '-')
		cli_note(cli, "options of exec stand before the sandbox");
	return code;
}

static const struct opt exec_opts[] = {
	{'i', "interactive", NULL, "give the command our standard input"},
	{'t', "tty", NULL, "give the command a terminal"},
	{'u', "user", "USER", "run as this user, by name or number"},
	{'w', "workdir", "DIR", "run in this directory (default: the user's home)"},
	{'e', "env", "NAME=VALUE", "set a variable; NAME alone passes ours on (repeatable)"},
	{0, "timeout", "SECONDS", "kill the command and all it started after so long"},
	{0, "vm", "NAME", "in this VM of the sandbox"},
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
