#include "cli/copy/copy.h"

static int print_counts(struct cli *cli, const struct copy *c, struct err *e)
{
	auto_json json_t *doc = NULL;

	if (json_make(&doc, e, "{s:I, s:I, s:I, s:I, s:I}", "files", (json_int_t)c->files,
		    "directories", (json_int_t)c->directories, "links", (json_int_t)c->links,
		    "bytes", (json_int_t)c->bytes, "failures", (json_int_t)c->failures) < 0)
		return -1;
	return print_json(&cli->screen, doc, e);
}

static int cmd_cp_run(struct cli *cli, struct err *e)
{
	auto_copy_side struct copy_side from = {0}, to = {0};
	struct copy c = {.cli = cli};

	if (copy_side_parse(cli->args->operands[0], &from, e) < 0 ||
		copy_side_parse(cli->args->operands[1], &to, e) < 0)
		return -1;
	if (from.remote && to.remote)
		return args_fail(e,
			"both sides are sandboxes; pipe it: moat cp A:FILE - | moat cp - "
			"B:FILE");
	if (!from.remote && !to.remote)
		return args_fail(e, "one side must be SANDBOX:PATH");
	c.remote = from.remote ? &from : &to;
	if ((from.remote ? copy_get(&c, to.path, e) : copy_put(&c, from.path, e)) < 0)
		return -1;
	if (cli->json && print_counts(cli, &c, e) < 0)
		return -1;
	return c.failures ? EXIT_FAILED : EXIT_OK;
}

static const struct opt cp_opts[] = {
	{'u', "user", "USER", "read and write as this user in the sandbox"},
	{'r', "recursive", NULL, "directories too: always so, taken for habit's sake"},
	{0},
};

const struct cmd cmd_cp = {
	.name = "cp",
	.group = "Sandboxes:",
	.synopsis = "SOURCE DESTINATION",
	.summary = "copy files and directories into a sandbox or out of it",
	.about = "One side is SANDBOX:PATH or SANDBOX/VM:PATH, the other a path here, or - for\n"
		 "standard input or output. Relative paths in a sandbox start at the user's home. "
		 "If\n"
		 "DESTINATION is a directory, the copy goes into it; SOURCE/. means what is in "
		 "SOURCE.\n"
		 "Modes are kept; links stay links. Missing directories in the sandbox are made.",
	.examples = "  moat cp agent.py 3f9c:\n"
		    "  moat cp ./tests 3f9c:/srv/tests\n"
		    "  moat cp 3f9c/router:/var/log/. logs\n"
		    "  moat cp 3f9c:/etc/passwd -\n"
		    "  pg_dump db | moat cp - 3f9c:dump.sql",
	.opts = cp_opts,
	.min = 2,
	.max = 2,
	.operand = OPERAND_COPY,
	.flags = CMD_JSON,
	.run = cmd_cp_run,
};
