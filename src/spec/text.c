#include "spec/text.h"

#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "util/str.h"
#include "util/suggest.h"

/* JSON Schema counts characters, not bytes. jansson has made sure that the text is UTF-8. */
static size_t count_chars(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

static bool has_control(const char *s, bool many_lines)
{
	for (; *s; s++) {
		unsigned char c = (unsigned char)s[0], next = (unsigned char)s[1];

		if ((c < 0x20 || c == 0x7f) && !(many_lines && strchr("\t\n\r", c)))
			return true;
		if (c == 0xc2 && next >= 0x80 && next <= 0x9f) /* U+0080 to U+009F in UTF-8 */
			return true;
	}
	return false;
}

static int check_pattern(const struct text_class *text, const char *s, struct err *e)
{
	char shown[64];
	regex_t re;
	int rc;

	if (regcomp(&re, text->pattern, REG_EXTENDED | REG_NOSUB) != 0)
		return err_set(e, ERR_INTERNAL, "cannot compile the pattern %s", text->pattern);
	rc = regexec(&re, s, 0, NULL, 0);
	regfree(&re);
	if (rc == 0)
		return 0;
	str_escape(s, strlen(s), shown, sizeof(shown));
	return err_set(e, ERR_INVALID, "\"%s\" is not %s", shown, text->is);
}

int choices_find(const struct choices *c, const char *s)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->list[i] && strcmp(c->list[i], s) == 0)
			return (int)i;
	return -1;
}

int text_check(const struct field *f, const char *s, size_t len, struct err *e)
{
	/* f->max of a user is the largest uid; names have a limit of their own. */
	double max = f->kind == FIELD_USER ? SPEC_USER_NAME_MAX : f->max;
	char list[CHOICES_TEXT_MAX], shown[64];
	size_t chars;

	if (strlen(s) != len)
		return err_set(e, ERR_INVALID, "contains a NUL character");
	chars = count_chars(s);
	if ((double)chars > max)
		return err_set(e, ERR_INVALID, "is %zu characters long; at most %.0f are allowed",
			chars, max);
	if (chars == 0 && (f->min > 0 || f->kind == FIELD_USER))
		return err_set(e, ERR_INVALID, "is empty");
	if (has_control(s, f->text->many_lines))
		return err_set(e, ERR_INVALID, "contains a control character");
	if (f->choices && choices_find(f->choices, s) < 0) {
		str_escape(s, len, shown, sizeof(shown));
		return err_set(e, ERR_INVALID, "\"%s\" is not one of %s", shown,
			choices_text(f->choices, list, sizeof(list)));
	}
	return f->text->pattern ? check_pattern(f->text, s, e) : 0;
}

const char *text_wrong_path(const char *path)
{
	for (const char *at = path; *at;) {
		size_t n = strcspn(at + 1, "/"); /* at is a slash */

		if (n == 0)
			return "has an empty part";
		if ((n == 1 && at[1] == '.') || (n == 2 && at[1] == '.' && at[2] == '.'))
			return "has \".\" or \"..\" in it";
		if (n > 255)
			return "has a name of more than 255 bytes";
		at += n + 1;
	}
	return NULL;
}

const char *text_nearest_member(const struct shape *s, const char *name)
{
	struct suggestion best = {0};

	for (size_t i = 0; i < s->n_fields; i++)
		suggest_consider(&best, name, strlen(name), s->fields[i].name);
	return best.word;
}

const char *choices_text(const struct choices *c, char *out, size_t size)
{
	size_t used = 0;

	out[0] = '\0';
	for (size_t i = 0; i < c->n && used < size; i++)
		if (c->list[i])
			used += (size_t)snprintf(
				out + used, size - used, "%s\"%s\"", used ? ", " : "", c->list[i]);
	return out;
}
