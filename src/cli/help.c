#include "cli/help.h"

#include <ctype.h>
#include <string.h>

#include "cli/cli.h"

enum { LEFT_COLUMN = 26, NAME_COLUMN = 12 };

void help_overview(FILE *f)
{
	const char *group = "";

	fputs("moat gives AI evaluations virtual machines to break things in.\n\n"
	      "Usage: moat VERB [OPTION...] [ARGUMENT...]\n",
		f);
	for (const struct cmd *const *c = cmd_table; *c; c++) {
		if (strcmp(group, (*c)->group) != 0) {
			group = (*c)->group;
			fprintf(f, "\n%s\n", group);
		}
		fprintf(f, "  %-*s %s\n", NAME_COLUMN, (*c)->name, (*c)->summary);
	}
	fputs("\n`moat help VERB` says more, with examples; `man moat` says all.\n", f);
}

static void print_opt(FILE *f, const struct opt *o)
{
	char left[64];
	int n;

	if (!o->help)
		return;
	n = o->letter ? snprintf(left, sizeof(left), "-%c, --%s", o->letter, o->name)
		      : snprintf(left, sizeof(left), "    --%s", o->name);
	if (o->arg)
		snprintf(left + n, sizeof(left) - (size_t)n, " %s", o->arg);
	if (strlen(left) >= LEFT_COLUMN)
		fprintf(f, "  %s\n  %*s %s\n", left, LEFT_COLUMN, "", o->help);
	else
		fprintf(f, "  %-*s %s\n", LEFT_COLUMN, left, o->help);
}

static void print_sentence(FILE *f, const char *text)
{
	fprintf(f, "%c%s.\n", toupper((unsigned char)*text), text + 1);
}

static void print_subs(FILE *f, const struct cmd *cmd)
{
	fprintf(f, "Usage: moat %s VERB [OPTION...] [ARGUMENT...]\n\n", cmd->name);
	print_sentence(f, cmd->summary);
	fputs("\nVerbs:\n", f);
	for (const struct cmd *const *s = cmd->subs; *s; s++)
		fprintf(f, "  %-*s %s\n", NAME_COLUMN, strchr((*s)->name, ' ') + 1, (*s)->summary);
}

void help_verb(FILE *f, const struct cmd *cmd)
{
	if (cmd->subs) {
		print_subs(f, cmd);
	} else {
		fprintf(f, "Usage: moat %s [OPTION...]%s%s\n\n", cmd->name,
			*cmd->synopsis ? " " : "", cmd->synopsis);
		print_sentence(f, cmd->summary);
		if (cmd->about)
			fprintf(f, "\n%s\n", cmd->about);
		fputs("\nOptions:\n", f);
		for (const struct opt *o = cmd->opts; o && o->name; o++)
			print_opt(f, o);
		for (const struct opt *o = cmd_common_opts; o->name; o++)
			if (cmd_takes_common(cmd, o))
				print_opt(f, o);
	}
	if (cmd->examples)
		fprintf(f, "\nExamples:\n%s\n", cmd->examples);
}

static int cmd_help_run(struct cli *cli, struct err *e)
{
	const struct args *a = cli->args;
	const struct cmd *cmd;

	if (a->n_operands == 0) {
		help_overview(stdout);
		return EXIT_OK;
	}
	cmd = cmd_find(cmd_table, a->operands[0]);
	if (!cmd)
		return cmd_fail_unknown(cmd_table, a->operands[0], e);
	if (a->n_operands > 1) {
		const struct cmd *sub = cmd->subs ? cmd_find(cmd->subs, a->operands[1]) : NULL;

		if (!sub && cmd->subs)
			return cmd_fail_unknown(cmd->subs, a->operands[1], e);
		if (!sub)
			return args_fail(e, "%s has no verbs of its own", cmd->name);
		cmd = sub;
	}
	help_verb(stdout, cmd);
	return EXIT_OK;
}

const struct cmd cmd_help = {
	.name = "help",
	.group = "About moat:",
	.synopsis = "[VERB [VERB]]",
	.summary = "explain a verb, with its options and examples",
	.examples = "  moat help exec\n"
		    "  moat help image build",
	.max = 2,
	.operand = OPERAND_VERB,
	.flags = CMD_NO_QUIET | CMD_NO_PATHS,
	.run = cmd_help_run,
};
