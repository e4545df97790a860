#include "runner/prepare.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define BASE_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

enum {
	BASE_COUNT = 7,              /* variables that prepare_fill may add */
	BASE_BYTES = 4096,           /* and room for them: struct user bounds its strings */
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

static size_t count_pointers(const struct prepared *p)
{
	return (size_t)p->argc + p->envc + BASE_COUNT + 2;
}

size_t prepare_size(const struct prepared *p)
{
	return sizeof(struct job) + count_pointers(p) * sizeof(char *) + strlen(p->cwd) + 1 +
	       p->len + BASE_BYTES;
}

static bool is_given(char *const *env, const char *name, size_t len)
{
	for (; *env; env++)
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
			return true;
	return false;
}

/* Adds to the n variables of env; the text goes to `to`. Returns how much that is. */
static size_t add_base(char **env, size_t n, char *to, const struct user *u, bool tty)
{
	const struct {
		const char *name, *value;
	} base[BASE_COUNT] = {
		{"PATH", BASE_PATH},
		{"HOME", u->home},
		{"USER", u->name},
		{"LOGNAME", u->name},
		{"SHELL", u->shell},
		{"LANG", "C.UTF-8"},
		{"TERM", tty ? "xterm" : ""},
	};
	size_t used = 0;

	for (int i = 0; i < BASE_COUNT; i++) {
		size_t name = strlen(base[i].name), value = strlen(base[i].value);
		char *s = to + used;

		if (!value || used + name + value + 2 > BASE_BYTES ||
			is_given(env, base[i].name, name))
			continue;
		memcpy(s, base[i].name, name);
		s[name] = '=';
		memcpy(s + name + 1, base[i].value, value + 1);
		used += name + value + 2;
		env[n++] = s;
		env[n] = NULL;
	}
	return used;
}

void prepare_fill(const struct prepared *p, bool tty, struct job *job)
{
	size_t cwd = strlen(p->cwd) + 1;
	char *text = (char *)(job->rest + count_pointers(p));
	char *at = text + cwd;

	memcpy(text, p->cwd, cwd);
	memcpy(at, p->strings, p->len);
	job->cwd = text;
	job->argv = job->rest;
	job->env = job->argv + p->argc + 1;
	for (uint32_t n = 0; n < p->argc + p->envc; n++, at += strlen(at) + 1)
		*(n < p->argc ? &job->argv[n] : &job->env[n - p->argc]) = at;
	job->argv[p->argc] = job->env[p->envc] = NULL;
	job->strings = p->len + add_base(job->env, p->envc, at, &job->user, tty);
	job->tty = tty;
}
