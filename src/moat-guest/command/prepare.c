#include "moat-guest/command/prepare.h"

#include <errno.h>
#include <string.h>

#include "util/auto.h"

#define BASE_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

enum {
	BASE_BYTES = 256 + 2 * USER_NAME_MAX + 2 * USER_TEXT_MAX, /* what add_base may add */
	STRINGS_COUNT_MAX = 1 << 20, /* a pointer each, in a guest with little memory */
};

int prepare_parse(const struct wire_msg *m, const struct frame *f, struct prepared *ret)
{
	struct prepared p = {.argc = m->count, .envc = m->count2};
	const uint8_t *at = f->body;
	size_t left = f->body_len;
	uint32_t n;

	p.user = wire_next_string(&at, &left);
	p.cwd = p.user ? wire_next_string(&at, &left) : NULL;
	if (!p.cwd || !m->count || m->count > left || m->count2 > left)
		return EINVAL;
	if (m->count + m->count2 > STRINGS_COUNT_MAX)
		return E2BIG;
	p.strings = at;
	p.len = left;
	for (n = 0; n < p.argc + p.envc; n++)
		if (!wire_next_string(&at, &left))
			return EINVAL;
	if (left)
		return EINVAL;
	*ret = p;
	return 0;
}

size_t prepare_size(const struct prepared *p)
{
	return sizeof(struct command) + strlen(p->cwd) + 1 + p->len + BASE_BYTES;
}

static bool is_given(const char *env, uint32_t n, const char *name)
{
	size_t len = strlen(name);

	for (; n > 0; n--, env += strlen(env) + 1)
		if (strncmp(env, name, len) == 0 && env[len] == '=')
			return true;
	return false;
}

static void add_text(struct command *c, const void *text, size_t len)
{
	memcpy(c->strings + c->len, text, len);
	c->len += len;
}

static void add_base(struct command *c, const char *given, uint32_t n_given)
{
	const struct {
		const char *name, *value;
	} base[] = {
		{"PATH", BASE_PATH},
		{"HOME", c->user.home},
		{"USER", c->user.name},
		{"LOGNAME", c->user.name},
		{"SHELL", c->user.shell},
		{"LANG", "C.UTF-8"},
		{"TERM", c->tty ? "xterm" : ""},
	};

	for (size_t i = 0; i < ARRAY_LEN(base); i++) {
		if (!base[i].value[0] || is_given(given, n_given, base[i].name))
			continue;
		add_text(c, base[i].name, strlen(base[i].name));
		add_text(c, "=", 1);
		add_text(c, base[i].value, strlen(base[i].value) + 1);
		c->envc++;
	}
}

void prepare_fill(const struct prepared *p, bool tty, struct command *c)
{
	const char *given;

	c->tty = tty;
	c->argc = p->argc;
	c->envc = p->envc;
	c->len = 0;
	add_text(c, p->cwd, strlen(p->cwd) + 1);
	given = c->strings + c->len;
	add_text(c, p->strings, p->len);
	for (uint32_t i = 0; i < p->argc; i++)
		given += strlen(given) + 1;
	add_base(c, given, p->envc);
}
