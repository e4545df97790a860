#include "runner/prepare.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BASE_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

enum {
	BASE_MAX = 7,                /* entries that prepare_environment may add */
	STRINGS_COUNT_MAX = 1 << 20, /* a pointer each, in a guest with little memory */
};

void prepare_free(struct prepared *p)
{
	free(p->argv);
	free(p->base);
}

int prepare_parse(const struct wire_msg *m, const struct frame *f, struct prepared *ret)
{
	struct prepared p = {.strings = f->body_len};
	const uint8_t *at = f->body;
	size_t left = f->body_len;
	uint32_t n = 0, total;

	p.user = wire_next_string(&at, &left);
	p.cwd = p.user ? wire_next_string(&at, &left) : NULL;
	if (!p.cwd || !m->count || m->count > left || m->count2 > left)
		return EINVAL;
	total = m->count + m->count2;
	if (total > STRINGS_COUNT_MAX)
		return E2BIG;
	p.argv = calloc((size_t)total + BASE_MAX + 2, sizeof(char *));
	if (!p.argv)
		return ENOMEM;
	p.env = p.argv + m->count + 1;
	for (; n < total; n++) {
		/* execve does not change the strings, it is only declared that way */
		char *s = (char *)(uintptr_t)wire_next_string(&at, &left);

		if (!s)
			break;
		*(n < m->count ? &p.argv[n] : &p.env[n - m->count]) = s;
	}
	if (n < total || left) {
		free(p.argv);
		return EINVAL;
	}
	*ret = p;
	return 0;
}

static bool is_given(char *const *env, const char *name, size_t len)
{
	for (; *env; env++)
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
			return true;
	return false;
}

int prepare_environment(struct prepared *p, const struct user *u, bool tty)
{
	const struct {
		const char *name, *value;
	} base[BASE_MAX] = {
		{"PATH", BASE_PATH},
		{"HOME", u->home},
		{"USER", u->name},
		{"LOGNAME", u->name},
		{"SHELL", u->shell},
		{"LANG", "C.UTF-8"},
		{"TERM", tty ? "xterm" : ""},
	};
	size_t size = 0, n = 0, used = 0;
	bool wanted[BASE_MAX];

	for (int i = 0; i < BASE_MAX; i++) {
		size_t len = strlen(base[i].name);

		wanted[i] = base[i].value[0] && !is_given(p->env, base[i].name, len);
		size += len + strlen(base[i].value) + 2;
	}
	p->base = malloc(size);
	if (!p->base)
		return ENOMEM;
	while (p->env[n])
		n++;
	for (int i = 0; i < BASE_MAX; i++) {
		if (!wanted[i])
			continue;
		p->env[n++] = p->base + used;
		used += (size_t)snprintf(
				p->base + used, size - used, "%s=%s", base[i].name, base[i].value) +
			1;
	}
	p->strings += used;
	return 0;
}
