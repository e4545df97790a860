#include "cli/completion/completion.h"

#include <string.h>

static void print_words(FILE *f, const struct cmd *const *table)
{
	for (; *table; table++) {
		const char *space = strchr((*table)->name, ' ');

		fprintf(f, "%s ", space ? space + 1 : (*table)->name);
	}
}

/* The shell code that completes operands of a kind. */
static const char *operand_words(enum operand kind)
{
	switch (kind) {
	case OPERAND_SANDBOX:
	case OPERAND_SANDBOXES:
		return "words=$(moat ls --ids --no-start 2>/dev/null)";
	case OPERAND_IMAGE:
		return "words=\"tiny debian12 debian13 desktop $(moat image ls --names --no-start "
		       "2>/dev/null)\"";
	case OPERAND_SPEC:
		return "files=1 words=$(moat image ls --names --no-start 2>/dev/null)";
	case OPERAND_FILE:
		return "files=1";
	case OPERAND_COPY:
		return "files=1 words=$(moat ls --ids --no-start 2>/dev/null | sed 's/$/:/')";
	case OPERAND_DRIVER:
		return "words='qemu proxmox vagrant'";
	case OPERAND_SHELL:
		return "words='bash zsh fish'";
	case OPERAND_VERB:
		return "words=$verbs";
	case OPERAND_NONE:
		break;
	}
	return ":";
}

static void print_verb(FILE *f, const struct cmd *cmd)
{
	const struct opt *o;

	fprintf(f, "\t\"%s\")\n\t\toptions='", cmd->name);
	for (unsigned i = 0; (o = complete_opt(cmd, i)); i++) {
		fprintf(f, "--%s ", o->name);
		if (o->letter)
			fprintf(f, "-%c ", o->letter);
	}
	fputs("'\n\t\ttakes=' ", f);
	for (unsigned i = 0; (o = complete_opt(cmd, i)); i++) {
		if (o->arg)
			fprintf(f, "--%s ", o->name);
		if (o->arg && o->letter)
			fprintf(f, "-%c ", o->letter);
	}
	fprintf(f, "'\n\t\t%s ;;\n", operand_words(cmd->operand));
}

void complete_bash(FILE *f)
{
	const struct cmd *cmd;

	fputs("# bash completion for moat, made by `moat completion bash`\n"
	      "_moat() {\n"
	      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
	      "\tlocal verb=${COMP_WORDS[1]} options='' takes='' words='' files=''\n"
	      "\tlocal verbs='",
		f);
	print_words(f, cmd_table);
	fputs("'\n"
	      "\tCOMPREPLY=()\n"
	      "\tif ((COMP_CWORD == 1)); then\n"
	      "\t\tmapfile -t COMPREPLY < <(compgen -W \"$verbs --help --version\" -- \"$cur\")\n"
	      "\t\treturn\n"
	      "\tfi\n",
		f);
	for (const struct cmd *const *c = cmd_table; *c; c++) {
		if (!(*c)->subs)
			continue;
		fprintf(f,
			"\tif [[ $verb == %s ]]; then\n"
			"\t\tif ((COMP_CWORD == 2)); then\n"
			"\t\t\tmapfile -t COMPREPLY < <(compgen -W '",
			(*c)->name);
		print_words(f, (*c)->subs);
		fputs("' -- \"$cur\")\n\t\t\treturn\n\t\tfi\n"
		      "\t\tverb+=\" ${COMP_WORDS[2]}\"\n\tfi\n",
			f);
	}
	fputs("\tcase $verb in\n", f);
	for (unsigned i = 0; (cmd = complete_leaf(i)); i++)
		print_verb(f, cmd);
	fputs("\tesac\n"
	      "\t[[ $takes == *\" $prev \"* ]] && return\n"
	      "\tif [[ $cur == -* ]]; then\n"
	      "\t\twords=$options files=''\n"
	      "\tfi\n"
	      "\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\"\n"
	      "\t\t[[ -n $files ]] && compgen -f -- \"$cur\")\n"
	      "}\n"
	      "complete -o filenames -F _moat moat\n",
		f);
}
