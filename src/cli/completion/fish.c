#include "cli/completion/completion.h"

#include <string.h>

static const char *operand_words(enum operand kind)
{
	switch (kind) {
	case OPERAND_SANDBOX:
	case OPERAND_SANDBOXES:
		return "-a '(moat ls --ids --no-start 2>/dev/null)'";
	case OPERAND_IMAGE:
		return "-a 'tiny debian12 debian13 desktop (moat image ls --names --no-start "
		       "2>/dev/null)'";
	case OPERAND_SPEC:
		return "-F -a '(moat image ls --names --no-start 2>/dev/null)'";
	case OPERAND_FILE:
		return "-F";
	case OPERAND_COPY:
		return "-F -a '(moat ls --ids --no-start 2>/dev/null | string replace -r \"\\$\" "
		       "\":\")'";
	case OPERAND_DRIVER:
		return "-a 'qemu proxmox vagrant'";
	case OPERAND_SHELL:
		return "-a 'bash zsh fish'";
	case OPERAND_VERB:
		return "-a '(__moat_verbs)'";
	case OPERAND_NONE:
		break;
	}
	return NULL;
}

/* Inside single quotes, fish needs \' for a quote and \\ for a backslash. */
static void print_text(FILE *f, const char *text)
{
	fputc('\'', f);
	for (; *text; text++) {
		if (*text == '\'' || *text == '\\')
			fputc('\\', f);
		fputc(*text, f);
	}
	fputc('\'', f);
}

static void print_verbs(FILE *f, const char *after, const struct cmd *const *table)
{
	for (; *table; table++) {
		const char *space = strchr((*table)->name, ' ');

		fprintf(f, "complete -c moat -n '__moat_in \"%s\"' -a %s -d ", after,
			space ? space + 1 : (*table)->name);
		print_text(f, (*table)->summary);
		fputc('\n', f);
	}
}

static void print_options(FILE *f, const struct cmd *cmd)
{
	const char *words = operand_words(cmd->operand);
	const struct opt *o;

	for (unsigned i = 0; (o = complete_opt(cmd, i)); i++) {
		fprintf(f, "complete -c moat -n '__moat_in \"%s\"' -l %s", cmd->name, o->name);
		if (o->letter)
			fprintf(f, " -s %c", o->letter);
		fprintf(f, "%s -d ", o->arg ? " -x" : "");
		print_text(f, o->help);
		fputc('\n', f);
	}
	if (words)
		fprintf(f, "complete -c moat -n '__moat_in \"%s\"' %s\n", cmd->name, words);
}

void complete_fish(FILE *f)
{
	const struct cmd *cmd;

	fputs("# fish completion for moat, made by `moat completion fish`\n"
	      "function __moat_verb # the verb that has been typed: \"up\", \"image build\"\n"
	      "    set -l words (commandline -opc)\n"
	      "    if contains -- \"$words[2]\"",
		f);
	for (const struct cmd *const *c = cmd_table; *c; c++)
		if ((*c)->subs)
			fprintf(f, " %s", (*c)->name);
	fputs("\n"
	      "        echo (string join ' ' $words[2..3])\n"
	      "    else\n"
	      "        echo \"$words[2]\"\n"
	      "    end\n"
	      "end\n"
	      "function __moat_in # what follows this verb comes now\n"
	      "    test (__moat_verb) = \"$argv[1]\"\n"
	      "end\n"
	      "function __moat_verbs\n"
	      "    string split ' ' '",
		f);
	for (const struct cmd *const *c = cmd_table; *c; c++)
		fprintf(f, "%s%s", c == cmd_table ? "" : " ", (*c)->name);
	fputs("'\nend\ncomplete -c moat -f\n", f);
	print_verbs(f, "", cmd_table);
	for (const struct cmd *const *c = cmd_table; *c; c++)
		if ((*c)->subs)
			print_verbs(f, (*c)->name, (*c)->subs);
	for (unsigned i = 0; (cmd = complete_leaf(i)); i++)
		print_options(f, cmd);
}
