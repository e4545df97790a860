/* How it works: the agent's own calls transfer whole files. Scripts for cmd do what needs a shell:
 * commands, making and listing directories, files in several pieces. */
#include "guestlink/agent/windows.h"

#include <errno.h>
#include <string.h>

#include "guestlink/agent/windows-script.h"
#include "guestlink/agent/windows-exec.h"
#include "wire/wire.h"
#include "util/auto.h"

enum {
	PIECE = 4 * 1024 * 1024, /* bytes of a file that are collected before they are appended */
	FILE_MODE = 0644,        /* Windows has none */
};

/* Turns the agent's error into the reason why a file could not be opened. */
static int explain(struct agent *w, const struct op *op, const char *path, struct err *e)
{
	auto_buf struct buf body = {0};
	char id[WINCMD_ID_LEN + 1];
	int eno = qga_says_errno(e);
	struct err late;

	if (!eno)
		return -1;
	guest_fail(e, (uint32_t)eno, path, "");
	/* Opening a directory fails on Windows with "access denied", like another user's file: find
	 * out which it is. */
	if (e->sys == EACCES && win_make_id(id, &late) == 0 &&
		wincmd_why(&body, path, &late) == 0 &&
		win_run_own(w, op, id, &body, path, NULL, &late) < 0 && late.sys == EISDIR)
		*e = late;
	return -1;
}

struct body {
	const struct guest_io *io;
	uint64_t size;
};

static int give_body(void *arg, struct bytes piece, struct err *e)
{
	struct body *body = arg;

	body->size += piece.len;
	return body->io->output(body->io->arg, WIRE_BODY, piece, e);
}

static int windows_read(struct guest *g, const struct op *op, const struct guest_path *at,
	uint64_t max, const struct guest_io *io, struct guest_stat *ret, struct err *e)
{
	struct agent *w = agent_of(g);
	auto_turn struct turn *held = NULL;
	auto_free char *path = NULL;
	struct body body = {.io = io};

	if (win_check_user(at->user, e) < 0 || wincmd_full_path(at->cwd, at->path, &path, e) < 0 ||
		turn_take(&w->turn, op, e) < 0)
		return -1;
	held = &w->turn;
	if (qga_file_read(w->q, op, path, 0, max, give_body, &body, e) < 0)
		return explain(w, op, path, e);
	*ret = (struct guest_stat){.size = body.size, .mode = FILE_MODE};
	return 0;
}

static int make_dir(struct agent *w, const struct op *op, const char *path, struct err *e)
{
	auto_buf struct buf body = {0};
	char id[WINCMD_ID_LEN + 1];

	if (win_make_id(id, e) < 0 || wincmd_mkdir(&body, path, e) < 0)
		return -1;
	return win_run_own(w, op, id, &body, path, NULL, e);
}

static int make_parent(struct agent *w, const struct op *op, const char *path, struct err *e)
{
	const char *end = strrchr(path, '\\');
	auto_free char *dir = end ? strndup(path, (size_t)(end - path)) : NULL;

	if (!end)
		return -1;
	return dir ? make_dir(w, op, dir, e) : err_oom(e);
}

/* Writes the first bytes of a file, which replace its content. */
static int put_first(struct agent *w, const struct op *op, const char *path, bool parents,
	struct bytes content, struct err *e)
{
	if (qga_file_write(w->q, op, path, content, e) == 0)
		return 0;
	explain(w, op, path, e);
	if (!parents || e->sys != ENOENT)
		return -1;
	if (make_parent(w, op, path, e) < 0)
		return -1;
	return qga_file_write(w->q, op, path, content, e) < 0 ? explain(w, op, path, e) : 0;
}

static int put_more(
	struct agent *w, const struct op *op, const char *path, struct bytes content, struct err *e)
{
	auto_buf struct buf body = {0};
	char id[WINCMD_ID_LEN + 1];
	unsigned pieces;

	if (!content.len)
		return 0;
	if (win_make_id(id, e) < 0 || win_put_pieces(w, op, id, content, &pieces, e) < 0 ||
		wincmd_join(&body, id, pieces, path, e) < 0)
		return -1;
	return win_run_own(w, op, id, &body, path, NULL, e);
}

static int windows_write(struct guest *g, const struct op *op, const struct guest_write *req,
	const struct guest_io *io, struct guest_stat *ret, struct err *e)
{
	struct agent *w = agent_of(g);
	auto_free char *path = NULL;
	size_t most = qga_write_max(w->q);
	bool first = !req->append;
	uint64_t total = 0;
	int ended;

	if (win_check_user(req->at.user, e) < 0 ||
		wincmd_full_path(req->at.cwd, req->at.path, &path, e) < 0)
		return -1;
	do {
		auto_turn struct turn *held = NULL;
		auto_buf struct buf content = {0};
		struct bytes rest;

		/* Collect input without holding the turn: the client may be slow. */
		ended = guest_collect(op, io, PIECE, &content, e);
		if (ended < 0 || turn_take(&w->turn, op, e) < 0)
			return -1;
		held = &w->turn;
		rest = buf_bytes(&content);
		if (first) {
			struct bytes head = {rest.p, rest.len < most ? rest.len : most};

			if (put_first(w, op, path, req->parents, head, e) < 0)
				return -1;
			rest.p += head.len;
			rest.len -= head.len;
		}
		if (put_more(w, op, path, rest, e) < 0)
			return -1;
		first = false;
		total += content.len;
	} while (!ended);
	*ret = (struct guest_stat){.size = total, .mode = FILE_MODE};
	return 0;
}

static int windows_list(struct guest *g, const struct op *op, const struct guest_path *at,
	int (*each)(void *arg, const struct guest_entry *entry, struct err *e), void *arg,
	struct err *e)
{
	struct agent *w = agent_of(g);
	auto_qga_exit struct qga_exit x = {0};
	auto_buf struct buf body = {0};
	auto_free char *path = NULL;
	char id[WINCMD_ID_LEN + 1];

	if (win_check_user(at->user, e) < 0 || wincmd_full_path(at->cwd, at->path, &path, e) < 0 ||
		win_make_id(id, e) < 0 || wincmd_list(&body, path, e) < 0)
		return -1;
	{
		auto_turn struct turn *held = NULL;

		if (turn_take(&w->turn, op, e) < 0)
			return -1;
		held = &w->turn;
		if (win_run_own(w, op, id, &body, path, &x, e) < 0)
			return -1;
	}
	return wincmd_parse_list(buf_bytes(&x.out), each, arg, e);
}

static int windows_mkdir(struct guest *g, const struct op *op, const struct guest_path *at,
	uint32_t mode, struct err *e)
{
	struct agent *w = agent_of(g);
	auto_turn struct turn *held = NULL;
	auto_free char *path = NULL;

	(void)mode; /* Windows has none */
	if (win_check_user(at->user, e) < 0 || wincmd_full_path(at->cwd, at->path, &path, e) < 0 ||
		turn_take(&w->turn, op, e) < 0)
		return -1;
	held = &w->turn;
	return make_dir(w, op, path, e);
}

static int windows_symlink(struct guest *g, const struct op *op, const struct guest_path *at,
	const char *target, struct err *e)
{
	(void)g, (void)op, (void)at, (void)target;
	return err_set(e, ERR_UNSUPPORTED, "links: not in Windows guests");
}

static const struct guest_ops windows_ops = {
	.exec = agent_winexec,
	.read = windows_read,
	.write = windows_write,
	.list = windows_list,
	.mkdir = windows_mkdir,
	.symlink = windows_symlink,
	.free = agent_free,
	.stand_still = agent_stand_still,
};

int agent_windows_open(struct qga *q, struct guest **ret, struct err *e)
{
	return agent_new(&windows_ops, q, ret, e);
}
