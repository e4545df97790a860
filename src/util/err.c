#include "util/err.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "util/auto.h"

static const char *const kind_names[] = {
	[ERR_NONE] = "none",
	[ERR_INVALID] = "invalid",
	[ERR_NOT_FOUND] = "not_found",
	[ERR_PERMISSION] = "permission",
	[ERR_IS_DIR] = "is_directory",
	[ERR_LIMIT] = "limit",
	[ERR_TIMEOUT] = "timeout",
	[ERR_CANCELLED] = "cancelled",
	[ERR_UNAVAILABLE] = "unavailable",
	[ERR_BUSY] = "busy",
	[ERR_UNSUPPORTED] = "unsupported",
	[ERR_BACKEND] = "backend",
	[ERR_INTERNAL] = "internal",
};
static_assert(ARRAY_LEN(kind_names) == ERR_KIND_COUNT, "a name for every kind");

int err_set_at(struct err *e, enum err_kind kind, const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	e->kind = kind;
	e->sys = 0;
	e->file = file;
	e->line = line;
	va_start(ap, fmt);
	vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
	va_end(ap);
	return -1;
}

int err_sys_at(struct err *e, int eno, const char *file, int line, const char *fmt, ...)
{
	char buf[128];
	const char *text = strerror_r(eno, buf, sizeof(buf));
	size_t room = sizeof(e->msg) - strlen(text) - 2; /* fmt's text is cut, never strerror's */
	va_list ap;
	size_t used;

	e->kind = err_kind_from_errno(eno);
	e->sys = eno;
	e->file = file;
	e->line = line;
	va_start(ap, fmt);
	vsnprintf(e->msg, room, fmt, ap);
	va_end(ap);
	used = strlen(e->msg);
	snprintf(e->msg + used, sizeof(e->msg) - used, ": %s", text);
	return -1;
}

int err_oom_at(struct err *e, const char *file, int line)
{
	err_set_at(e, ERR_INTERNAL, file, line, "out of memory");
	e->sys = ENOMEM;
	return -1;
}

bool err_is_shortage(const struct err *e)
{
	static const int shortages[] = {ENOMEM, EMFILE, ENFILE, EAGAIN, ENOSPC, EDQUOT};

	for (unsigned i = 0; i < ARRAY_LEN(shortages); i++)
		if (e->sys == shortages[i])
			return true;
	return false;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
	char cause[sizeof(e->msg)], text[sizeof(e->msg)];
	size_t cause_len, room;
	va_list ap;

	memcpy(cause, e->msg, sizeof(cause));
	cause_len = strlen(cause);
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	room = sizeof(e->msg) - 1 - cause_len;
	/* Two layers may add the same text: show it once. */
	if (strncmp(cause, text, strlen(text)) == 0 && strncmp(cause + strlen(text), ": ", 2) == 0)
		return -1;
	if (room > 2)
		snprintf(e->msg, sizeof(e->msg), "%.*s: %s", (int)(room - 2), text, cause);
	return -1;
}

const char *err_kind_name(enum err_kind kind)
{
	return (unsigned)kind < ERR_KIND_COUNT ? kind_names[kind] : "internal";
}

enum err_kind err_kind_from_name(const char *name)
{
	for (unsigned i = 0; i < ERR_KIND_COUNT; i++)
		if (strcmp(kind_names[i], name) == 0)
			return (enum err_kind)i;
	return ERR_INTERNAL;
}

enum err_kind err_kind_from_errno(int eno)
{
	switch (eno) {
	case ENOENT:
	case ENOTDIR:
		return ERR_NOT_FOUND;
	case EACCES:
	case EPERM:
	case EROFS:
		return ERR_PERMISSION;
	case EISDIR:
		return ERR_IS_DIR;
	case EFBIG:
	case E2BIG:
		return ERR_LIMIT;
	case EINVAL:
	case ENAMETOOLONG:
	case ELOOP:
		return ERR_INVALID;
	case ETIMEDOUT:
		return ERR_TIMEOUT;
	default:
		return ERR_INTERNAL;
	}
}
