#include <string.h>

#include "cli/cli.h"
#include "cli/complete.h"
#include "util/auto.h"

const struct cmd *complete_leaf(unsigned n)
{
	for (const struct cmd *const *c = cmd_table; *c; c++) {
		if (!(*c)->subs && n-- == 0)
			return *c;
		for (const struct cmd *const *s = (*c)->subs; s && *s; s++)
			if (n-- == 0)
				return *s;
	}
	return NULL;
}

const struct opt *complete_opt(const struct cmd *cmd, unsigned n)
{
	for (const struct opt *o = cmd->opts; o && o->name; o++)
		if (o->help && n-- == 0)
			return o;
	for (const struct opt *o = cmd_common_opts; o->name; o++)
		if (cmd_takes_common(cmd, o) && n-- == 0)
			return o;
	return NULL;
}

void complete_quote(FILE *f, const char *text, const char *special)
{
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\'", f);
		else if (strchr(special, *text))
			fputc('\\', f);
		fputc(*text, f);
	}
}

static int cmd_completion_run(struct cli *cli, struct err *e)
{
	static const struct {
		const char *name;
		void (*print)(FILE *f);
	} shells[] = {{"bash", complete_bash}, {"zsh", complete_zsh}, {"fish", complete_fish}};
	const char *shell = cli->args->operands[0];

	for (unsigned i = 0; i < ARRAY_LEN(shells); i++) {
		if (strcmp(shells[i].name, shell) == 0) {
			shells[i].print(stdout);
			return EXIT_OK;
		}
	}
	return args_fail(e, "\"%s\": bash, zsh and fish are known", shell);
}

const struct cmd cmd_completion = {
	.name = "completion",
	.group = "About moat:",
	.synopsis = "bash|zsh|fish",
	.summary = "print a completion script for a shell",
	.about = "An installed moat has brought them along; this is for one that is not installed.",
	.examples = "  source <(moat completion bash)\n"
		    "  moat completion fish > ~/.config/fish/completions/moat.fish",
	.min = 1,
	.max = 1,
	.operand = OPERAND_SHELL,
	.flags = CMD_NO_QUIET | CMD_NO_PATHS,
	.run = cmd_completion_run,
};
