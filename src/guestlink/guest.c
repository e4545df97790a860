#include "guestlink/guest.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "wire/wire.h"
#include "util/str.h"

static int check_strings(const char *const *list, const char *too_long, size_t *used, struct err *e)
{
	for (; list && *list; list++) {
		*used += strlen(*list) + 1;
		if (*used > WIRE_STRINGS_MAX)
			return guest_too_large(e, "%s", too_long);
	}
	return 0;
}

static int check_exec(const struct guest_exec *req, struct err *e)
{
	const char *const place[] = {req->user ? req->user : "", req->cwd ? req->cwd : "", NULL};
	size_t used = 0;

	if (!req->argv || str_empty(req->argv[0]))
		return err_set(e, ERR_INVALID, "no command");
	if (!isfinite(req->timeout) || req->timeout < 0)
		return err_set(e, ERR_INVALID, "the timeout is not a number of seconds");
	for (const char *const *var = req->env; var && *var; var++) {
		const char *equals = strchr(*var, '=');

		if (!equals || equals == *var)
			return err_set(
				e, ERR_INVALID, "environment entry %.200s is not NAME=value", *var);
	}
	if (check_strings(place, "user or directory name too long", &used, e) < 0 ||
		check_strings(req->argv, "command line too long", &used, e) < 0)
		return -1;
	return check_strings(req->env, "command line and environment too long", &used, e);
}

static int check_path(const struct guest_path *at, struct err *e)
{
	const char *const all[] = {
		at->user ? at->user : "", at->cwd ? at->cwd : "", at->path, NULL};
	size_t used = 0;

	if (str_empty(at->path))
		return err_set(e, ERR_INVALID, "no path");
	return check_strings(all, "path too long", &used, e);
}

static int discard(void *arg, int stream, struct bytes data, struct err *e)
{
	(void)arg;
	(void)stream;
	(void)data;
	(void)e;
	return 0;
}

int guest_exec(struct guest *g, const struct op *op, const struct guest_exec *req,
	const struct guest_io *io, struct guest_exit *ret, struct err *e)
{
	struct guest_io quiet = *io;

	if (check_exec(req, e) < 0)
		return -1;
	if (!quiet.output)
		quiet.output = discard;
	return g->ops->exec(g, op, req, &quiet, ret, e);
}

int guest_read(struct guest *g, const struct op *op, const struct guest_path *at, uint64_t max,
	const struct guest_io *io, struct guest_stat *ret, struct err *e)
{
	if (check_path(at, e) < 0)
		return -1;
	return g->ops->read(g, op, at, max, io, ret, e);
}

int guest_write(struct guest *g, const struct op *op, const struct guest_write *req,
	const struct guest_io *io, struct guest_stat *ret, struct err *e)
{
	if (check_path(&req->at, e) < 0)
		return -1;
	if (req->mode > 07777)
		return err_set(e, ERR_INVALID, "%o is not a file mode", req->mode);
	if (!io->in)
		return err_set(e, ERR_INTERNAL, "a write without input");
	return g->ops->write(g, op, req, io, ret, e);
}

/* Checks the entries that a guest sends before the caller's each() sees them. */
struct entry_gate {
	int (*each)(void *arg, const struct guest_entry *entry, struct err *e);
	void *arg;
	size_t count;
	bool itself; /* the entry "" was seen: nothing may follow */
};

static int gate_entry(void *arg, const struct guest_entry *entry, struct err *e)
{
	struct entry_gate *gate = arg;
	const char *name = entry->name;

	/* A client may make host paths of the names. */
	if (strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return err_set(e, ERR_UNAVAILABLE, "the guest sent a file name with a path in it");
	if (gate->itself || (!*name && gate->count))
		return err_set(e, ERR_UNAVAILABLE, "the guest sent an empty file name");
	if (++gate->count > GUEST_ENTRIES_MAX)
		return err_set(e, ERR_LIMIT, "more than %d entries", GUEST_ENTRIES_MAX);
	gate->itself = !*name;
	return gate->each(gate->arg, entry, e);
}

int guest_list(struct guest *g, const struct op *op, const struct guest_path *at,
	int (*each)(void *arg, const struct guest_entry *entry, struct err *e), void *arg,
	struct err *e)
{
	struct entry_gate gate = {.each = each, .arg = arg};

	if (check_path(at, e) < 0)
		return -1;
	return g->ops->list(g, op, at, gate_entry, &gate, e);
}

int guest_mkdir(struct guest *g, const struct op *op, const struct guest_path *at, uint32_t mode,
	struct err *e)
{
	if (check_path(at, e) < 0)
		return -1;
	if (mode > 07777)
		return err_set(e, ERR_INVALID, "%o is not a directory mode", mode);
	return g->ops->mkdir(g, op, at, mode, e);
}

int guest_symlink(struct guest *g, const struct op *op, const struct guest_path *at,
	const char *target, struct err *e)
{
	const char *const all[] = {target, NULL};
	size_t used = 0;

	if (check_path(at, e) < 0)
		return -1;
	if (str_empty(target))
		return err_set(e, ERR_INVALID, "no target");
	if (check_strings(all, "target too long", &used, e) < 0)
		return -1;
	return g->ops->symlink(g, op, at, target, e);
}

int guest_identify(
	struct guest *g, const struct op *op, const struct guest_identity *id, struct err *e)
{
	if (!g->ops->identify)
		return err_set(e, ERR_UNSUPPORTED, "only the runner can make a copied VM its own");
	return g->ops->identify(g, op, id, e);
}

bool guest_has_runner(const struct guest *g)
{
	return g->ops->has_runner && g->ops->has_runner(g);
}

const char *guest_link_name(const struct guest *g)
{
	return guest_has_runner(g) ? "runner" : "agent";
}

bool guest_can_be_cut_off(const struct guest *g)
{
	return g->ops->cut_off;
}

bool guest_is_cut_off(const struct guest *g)
{
	return g->ops->is_cut_off && g->ops->is_cut_off(g);
}

void guest_cut_off(struct guest *g, const char *why)
{
	g->ops->cut_off(g, why);
}

void guest_stand_still(struct guest *g, bool still)
{
	if (g->ops->stand_still)
		g->ops->stand_still(g, still);
}

void guest_let_go(struct guest *g, struct buf *rest)
{
	g->ops->let_go(g, rest);
}

void guest_free(struct guest *g)
{
	if (g)
		g->ops->free(g);
}

int guest_fail(struct err *e, uint32_t eno, const char *what, const char *text)
{
	enum { ERRNO_MAX = 4095 };
	int sys = eno && eno <= ERRNO_MAX ? (int)eno : EIO;
	char safe[512];

	str_escape(what, strlen(what), safe, sizeof(safe));
	err_sys(e, sys, "%s", safe);
	if (!str_empty(text))
		snprintf(e->msg, sizeof(e->msg), "%s", text);
	/* What the guest's file system lacks is not a fault of ours, and its timeouts are not this
	 * operation's. */
	if (e->kind == ERR_INTERNAL || e->kind == ERR_TIMEOUT)
		e->kind = sys == EAGAIN ? ERR_BUSY : ERR_BACKEND;
	return -1;
}

void guest_not_run(
	struct guest_exit *ret, enum guest_stage stage, uint32_t eno, const char *escaped)
{
	*ret = (struct guest_exit){.stage = stage, .sys = eno <= INT32_MAX ? (int)eno : EIO};
	ret->code = stage == GUEST_NO_EXEC && eno == ENOENT ? 127 : 126;
	snprintf(ret->message, sizeof(ret->message), "%s", escaped);
}

int guest_collect(
	const struct op *op, const struct guest_io *io, size_t max, struct buf *ret, struct err *e)
{
	while (ret->len < max) {
		struct message message;
		int got = inbox_take(io->in, &message, e);

		if (got < 0)
			return -1;
		if (got == 0) {
			if (op_wait_fd(op, inbox_fd(io->in), POLLIN, e) < 0)
				return -1;
			continue;
		}
		if (message.type == GUEST_INPUT_EOF)
			return 1;
		size_t n = message.type == GUEST_INPUT_DATA ? message.data.len : 0;
		int rc = n ? buf_add(ret, buf_data(&message.data), n, e) : 0;

		buf_free(&message.data);
		if (rc < 0)
			return -1;
		if (n && io->consumed)
			io->consumed(io->arg, n);
	}
	return 0;
}
