#include "cli/choose/spec.h"
#include "cli/exec.h"
#include "cli/up.h"
#include "util/auto.h"

/* The sandbox goes with our connection too: this says so when it could not be removed. */
static int remove_it(struct cli *cli, const char *id, struct err *e)
{
	if (cli_request(cli, "rm", json_pack("{s:[s]}", "sandboxes", id), NULL, e) < 0 &&
		e->kind != ERR_NOT_FOUND)
		return err_wrap(e, "the command has ended, but its sandbox %s stays", id);
	return 0;
}

static int cmd_run_run(struct cli *cli, struct err *e)
{
	auto_json json_t *spec = NULL, *result = NULL;
	const char *id;
	int code;

	if (choose_spec(cli, &spec, e) < 0 || up_make(cli, spec, 0, &result, e) < 0)
		return -1;
	id = get_str(result, "id");
	code = exec_words(cli, id, cli->args->operands + 1, e);
	if (code < 0)
		return -1;
	return remove_it(cli, id, e) < 0 ? -1 : code;
}

static const struct opt run_opts[] = {
	EXEC_OPTS,
	UP_OPTS,
	{0},
};

const struct cmd cmd_run = {
	.name = "run",
	.group = "Sandboxes:",
	.synopsis = "SPEC|IMAGE [--] COMMAND [ARGUMENT...]",
	.summary = "run a command in a new sandbox, and remove it",
	.about = "`moat up`, `moat exec` and `moat rm` in one. The exit codes are those of `moat\n"
		 "exec`; 125 also when no sandbox could be made.",
	.examples = "  moat run tiny -- uname -a\n"
		    "  moat run -it debian12 bash\n"
		    "  moat run --ram 4G -i debian12 -- sh -s < build.sh",
	.opts = run_opts,
	.min = 2,
	.max = OPERANDS_ANY,
	.operand = OPERAND_SPEC,
	.flags = CMD_JSON | CMD_COMMAND | CMD_OWN_ERROR,
	.run = cmd_run_run,
};
