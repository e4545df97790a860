#include "util/strv.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void strv_free(struct strv *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i]);
	free(s->v);
	*s = (struct strv){0};
}

static void add_owned(struct strv *s, char *text)
{
	if (!text || s->failed) {
		free(text);
		s->failed = 1;
		return;
	}
	if (s->n + 2 > s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 16;
		char **v = realloc(s->v, cap * sizeof(char *));

		if (!v) {
			free(text);
			s->failed = 1;
			return;
		}
		s->v = v;
		s->cap = cap;
	}
	s->v[s->n++] = text;
	s->v[s->n] = NULL;
}

void strv_add(struct strv *s, const char *text)
{
	add_owned(s, strdup(text));
}

void strv_addf(struct strv *s, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	add_owned(s, text);
}

void strv_add_all(struct strv *s, ...)
{
	const char *text;
	va_list ap;

	va_start(ap, s);
	while ((text = va_arg(ap, const char *)))
		strv_add(s, text);
	va_end(ap);
}

int strv_check(const struct strv *s, struct err *e)
{
	return s->failed || !s->v ? err_oom(e) : 0;
}
