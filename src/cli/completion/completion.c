#include "cli/completion/completion.h"

#include <string.h>

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
