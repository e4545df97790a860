#include "cli/completion/completion.h"

#include <string.h>

static const char *operand_action(enum operand kind)
{
	switch (kind) {
	case OPERAND_SANDBOX:
		return "'1:sandbox:_moat_sandboxes'";
	case OPERAND_SANDBOXES:
		return "'*:sandbox:_moat_sandboxes'";
	case OPERAND_IMAGE:
		return "'*:image:_moat_images'";
	case OPERAND_SPEC:
		return "'1:spec or image:_moat_specs'";
	case OPERAND_FILE:
		return "'1:file:_files'";
	case OPERAND_COPY:
		return "'*:file or sandbox:_moat_copy'";
	case OPERAND_DRIVER:
		return "'1:driver:(qemu proxmox vagrant)'";
	case OPERAND_SHELL:
		return "'1:shell:(bash zsh fish)'";
	case OPERAND_VERB:
		return "'1:verb:_moat_verbs'";
	case OPERAND_NONE:
		break;
	}
	return "";
}

static void print_opt(FILE *f, const struct opt *o)
{
	/* '*' allows the option more than once. */
	if (o->letter)
		fprintf(f, "\t\t\t'*'{-%c,--%s}'[", o->letter, o->name);
	else
		fprintf(f, "\t\t\t'*--%s[", o->name);
	complete_quote(f, o->help, "[]:");
	fputc(']', f);
	if (o->arg)
		fprintf(f, ":%s:", o->arg);
	fputs("' \\\n", f);
}

/* The verbs that follow the verb `after`, or the first ones, if that is empty. */
static void print_verbs(FILE *f, const char *after, const struct cmd *const *table)
{
	fprintf(f, "_moat_verbs%s%s() {\n\tlocal -a verbs=(\n", *after ? "_of_" : "", after);
	for (; *table; table++) {
		const char *space = strchr((*table)->name, ' ');

		fprintf(f, "\t\t'%s:", space ? space + 1 : (*table)->name);
		complete_quote(f, (*table)->summary, ":");
		fputs("'\n", f);
	}
	fputs("\t)\n\t_describe verb verbs\n}\n", f);
}

static void print_helpers(FILE *f)
{
	fputs("_moat_sandboxes() {\n"
	      "\tlocal -a ids=(${(f)\"$(moat ls --ids --no-start 2>/dev/null)\"})\n"
	      "\t_describe sandbox ids\n"
	      "}\n"
	      "_moat_images() {\n"
	      "\tlocal -a names=(tiny debian12 debian13 desktop ${(f)\"$(moat image ls --names "
	      "--no-start "
	      "2>/dev/null)\"})\n"
	      "\t_describe image names\n"
	      "}\n"
	      "_moat_specs() {\n"
	      "\t_moat_images\n"
	      "\t_files\n"
	      "}\n"
	      "_moat_copy() {\n"
	      "\tlocal -a ids=(${(f)\"$(moat ls --ids --no-start 2>/dev/null)\"})\n"
	      "\tcompadd -S ':' -a ids\n"
	      "\t_files\n"
	      "}\n",
		f);
}

void complete_zsh(FILE *f)
{
	const struct cmd *cmd;
	const struct opt *o;

	fputs("#compdef moat\n# zsh completion for moat, made by `moat completion zsh`\n", f);
	print_helpers(f);
	print_verbs(f, "", cmd_table);
	for (const struct cmd *const *c = cmd_table; *c; c++)
		if ((*c)->subs)
			print_verbs(f, (*c)->name, (*c)->subs);
	fputs("_moat() {\n"
	      "\tlocal verb=$words[2]\n"
	      "\tif ((CURRENT == 2)); then\n\t\t_moat_verbs\n\t\treturn\n\tfi\n"
	      "\tshift words\n\t((CURRENT--))\n"
	      "\tif (($+functions[_moat_verbs_of_$verb])); then\n"
	      "\t\tif ((CURRENT == 2)); then\n\t\t\t_moat_verbs_of_$verb\n\t\t\treturn\n\t\tfi\n"
	      "\t\tverb+=\" $words[2]\"\n\t\tshift words\n\t\t((CURRENT--))\n"
	      "\tfi\n"
	      "\tcase $verb in\n",
		f);
	for (unsigned i = 0; (cmd = complete_leaf(i)); i++) {
		fprintf(f, "\t'%s')\n\t\t_arguments -s -S \\\n", cmd->name);
		for (unsigned n = 0; (o = complete_opt(cmd, n)); n++)
			print_opt(f, o);
		fprintf(f, "\t\t\t%s ;;\n", operand_action(cmd->operand));
	}
	/* If sourced, the script registers the function itself; if autoloaded from fpath, it is the
	 * function's body. */
	fputs("\tesac\n}\n"
	      "if [[ $funcstack[1] == _moat ]]; then\n\t_moat \"$@\"\nelse\n\tcompdef _moat "
	      "moat\nfi\n",
		f);
}
