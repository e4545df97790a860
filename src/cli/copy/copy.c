#include "cli/copy/copy.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "cli/terminal/signals.h"
#include "util/auto.h"
#include "util/thread/op.h"
#include "util/str.h"

#define SHOW_AFTER_NS 500000000 /* quicker copies show no progress */

void copy_side_free(struct copy_side *p)
{
	free(p->sandbox);
	free(p->vm);
	free(p->path);
	*p = (struct copy_side){0};
}

/* The length of a name of letters, digits, '-', '_' and '.', not beginning with '.'; 0: none. */
static size_t name_length(const char *s)
{
	size_t n = 0;

	if (!isalnum((unsigned char)s[0]))
		return 0;
	while (isalnum((unsigned char)s[n]) || s[n] == '-' || s[n] == '_' || s[n] == '.')
		n++;
	return n;
}

int copy_side_parse(const char *text, struct copy_side *ret, struct err *e)
{
	auto_copy_side struct copy_side p = {0};
	size_t id = name_length(text), vm = 0, at = id;

	if (id && text[at] == '/') {
		vm = name_length(text + at + 1);
		at += 1 + vm;
	}
	p.remote = id && text[at] == ':' && (vm || at == id);
	if (p.remote) {
		p.sandbox = strndup(text, id);
		p.vm = vm ? strndup(text + id + 1, vm) : NULL;
		if (!p.sandbox || (vm && !p.vm))
			return err_oom(e);
		text += at + 1;
	}
	/* "SANDBOX:" means the home directory. */
	if (str_dup(p.remote && !*text ? "." : text, &p.path, e) < 0)
		return -1;
	if (!*p.path)
		return args_fail(e, "an empty path");
	*ret = p;
	p = (struct copy_side){0};
	return 0;
}

json_t *copy_args(struct copy *c, const char *path, struct err *e)
{
	json_t *args = cli_target(c->cli, c->remote->sandbox, e);

	if (!args)
		return NULL;
	if ((c->remote->vm && json_object_set_new(args, "vm", json_string(c->remote->vm)) < 0) ||
		json_object_set_new(args, "path", json_string(path)) < 0) {
		json_decref(args);
		err_set(e, ERR_INVALID, "%s: the name is not UTF-8", path);
		return NULL;
	}
	return args;
}

int copy_join(const char *dir, const char *name, char **ret, struct err *e)
{
	return str_printf(ret, e, "%s%s%s", dir, str_ends(dir, "/") ? "" : "/", name);
}

int copy_base(const char *path, char **ret, struct err *e)
{
	auto_free char *copy = NULL;
	size_t len = strlen(path);
	const char *base;

	if (str_dup(path, &copy, e) < 0)
		return -1;
	/* A path of Windows. */
	if (isalpha((unsigned char)copy[0]) && copy[1] == ':' && copy[2] == '\\')
		for (char *p = copy; *p; p++)
			*p = *p == '\\' ? '/' : *p;
	while (len && copy[len - 1] == '/')
		copy[--len] = 0;
	base = strrchr(copy, '/') ? strrchr(copy, '/') + 1 : copy;
	if (strcmp(base, ".") == 0 || strcmp(base, "..") == 0)
		base = "";
	return str_dup(base, ret, e);
}

void copy_moved(struct copy *c, size_t n)
{
	struct progress *p = &c->cli->progress;

	c->done += n;
	c->bytes += n;
	p->bytes = true;
	if (p->style == PROGRESS_LIVE && now_ns() - p->started_ns > SHOW_AFTER_NS)
		progress_update(p, c->name, c->done, c->total);
}

int copy_failed(struct copy *c, const char *path, struct err *e)
{
	char safe[sizeof(e->msg)];

	/* The guest's names may be in both: a line of its own could pass for a message of ours. */
	str_escape(e->msg, strlen(e->msg), safe, sizeof(safe));
	snprintf(e->msg, sizeof(e->msg), "%s", safe);
	if (e->kind == ERR_CANCELLED || e->kind == ERR_UNAVAILABLE || e->sys == ENOSPC ||
		e->sys == EDQUOT)
		return -1;
	str_escape(path, strlen(path), safe, sizeof(safe));
	err_wrap(e, "%s", safe);
	cli_print_error(c->cli, e);
	c->failures++;
	return 0;
}

int copy_interrupted(struct err *e)
{
	return signals_seen() ? err_set(e, ERR_CANCELLED, "interrupted") : 0;
}
