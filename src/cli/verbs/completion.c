#include <string.h>

#include "cli/cli.h"
#include "cli/completion/completion.h"
#include "util/auto.h"

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
	.about = "`make install` installs these scripts; print one for a moat that is not "
		 "installed.",
	.examples = "  source <(moat completion bash)\n"
		    "  moat completion fish > ~/.config/fish/completions/moat.fish",
	.min = 1,
	.max = 1,
	.operand = OPERAND_SHELL,
	.flags = CMD_NO_QUIET | CMD_NO_PATHS,
	.run = cmd_completion_run,
};
