#include "compose/text/words.h"

#include <string.h>

#include "util/auto.h"
#include "util/buf.h"
#include "util/json.h"

struct splitter {
	const char *at;
	struct buf word;
	bool in_word; /* also if it is empty so far: "" */
	json_t *words;
};

static void auto_splitterp(struct splitter *s)
{
	buf_free(&s->word);
	json_decref(s->words);
}

static int end_word(struct splitter *s, struct err *e)
{
	auto_free char *word = NULL;

	if (!s->in_word)
		return 0;
	s->in_word = false;
	word = buf_take_str(&s->word);
	if (!word || json_array_append_new(s->words, json_string(word)) < 0)
		return err_oom(e);
	return 0;
}

/* From behind a quote to its end. In double quotes a backslash keeps the meaning of what follows
 * from \ " $ and `. */
static int take_quoted(struct splitter *s, char quote, struct err *e)
{
	for (; *s->at && *s->at != quote; s->at++) {
		if (quote == '"' && *s->at == '\\' && s->at[1] && strchr("\\\"$`", s->at[1]))
			s->at++;
		buf_put(&s->word, s->at, 1);
	}
	if (!*s->at)
		return err_set(e, ERR_INVALID, "a quote (%c) has no end", quote);
	s->at++;
	return 0;
}

static int take_char(struct splitter *s, struct err *e)
{
	char c = *s->at++;

	if (strchr(" \t\r\n", c))
		return end_word(s, e);
	if (strchr(";&|<>", c))
		return err_set(e, ERR_INVALID,
			"\"%c\" is for a shell, and there is none; write [sh, -c, \"...\"]", c);
	s->in_word = true;
	if (c == '\'' || c == '"')
		return take_quoted(s, c, e);
	if (c == '\\' && !*s->at)
		return err_set(e, ERR_INVALID, "ends with a backslash");
	if (c == '\\')
		c = *s->at++;
	buf_put(&s->word, &c, 1);
	return 0;
}

int words_split(const char *text, json_t **ret, struct err *e)
{
	__attribute__((cleanup(auto_splitterp))) struct splitter s = {
		.at = text, .words = json_array()};

	if (!s.words)
		return err_oom(e);
	while (*s.at)
		if (take_char(&s, e) < 0)
			return -1;
	if (end_word(&s, e) < 0)
		return -1;
	*ret = take_ptr(&s.words);
	return 0;
}
