/* Operations inside a VM: exec, read, write, list, mkdir, symlink. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "daemon/ops/args.h"
#include "daemon/request.h"
#include "proto/proto.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"
#include "util/strv.h"

enum { DEFAULT_CAPTURE = 10 * 1024 * 1024, LIST_MAX = PROTO_JSON_MAX - 65536 };

/* A VM while an operation works in it: its sandbox is borrowed, its link taken. */
struct visit {
	struct request *rq;
	struct borrower b;
	unsigned vm;
	const char *user; /* the user that the client names, else the VM's default */
	const struct container *container; /* whose directory and variables it has; or NULL */
	char *cwd; /* the directory that the client names, else NULL or that of the container */
	struct guest *guest;
	int64_t since_ns;
};

/* The arguments that every operation has. */
struct where {
	const char *sandbox, *vm, *user, *cwd, *path;
};

static int set_cwd(struct visit *v, const char *cwd, struct err *e)
{
	if (v->container)
		return container_cwd(v->container, cwd, &v->cwd, e);
	return cwd ? str_dup(cwd, &v->cwd, e) : 0;
}

static int visit_begin(struct request *rq, const struct where *w, struct visit *v, struct err *e)
{
	struct registry *reg = rq->daemon->registry;
	struct vm_info info;

	*v = (struct visit){.rq = rq};
	/* An empty name would mean to the runner its own user, which is root. */
	if (w->user && !*w->user)
		return err_set(e, ERR_INVALID, "user: is empty");
	if (registry_borrow(reg, w->sandbox, &rq->op, &v->b, e) < 0)
		return -1;
	if (find_vm(v->b.sb, w->vm, &v->vm, e) < 0)
		goto give_back;
	v->b.sb->driver->ops->describe(v->b.driven, v->vm, &info);
	v->user = w->user ? w->user : info.user;
	v->container = info.container;
	if (set_cwd(v, w->cwd, e) < 0)
		goto give_back;
	v->since_ns = now_ns();
	if (v->b.sb->driver->ops->guest_take(v->b.driven, &rq->op, v->vm, &v->guest, e) == 0)
		return 0;
	registry_explain(reg, &v->b, e);
give_back:
	free(v->cwd);
	registry_return(reg, &v->b);
	return -1;
}

/* Returns rc, the operation's result; explains its failure. */
static int visit_end(struct visit *v, int rc, struct err *e)
{
	struct registry *reg = v->rq->daemon->registry;

	v->rq->guest_ns += now_ns() - v->since_ns;
	if (rc < 0 && e->kind == ERR_UNAVAILABLE)
		v->b.sb->driver->ops->explain(v->b.driven, v->vm, e);
	if (rc < 0)
		registry_explain(reg, &v->b, e);
	v->b.sb->driver->ops->guest_give(v->b.driven, v->vm, v->guest);
	free(take_ptr(&v->cwd));
	registry_return(reg, &v->b);
	return rc;
}

/* ---- exec ---- */

struct exec_args {
	struct where at;
	json_t *argv, *env, *tty;
	double timeout;
	int capture;
	json_int_t output_max, input_size;
};

static int add_strings(json_t *list, struct strv *ret, struct err *e)
{
	json_t *one;
	size_t i;

	json_array_foreach(list, i, one) {
		if (!json_is_string(one))
			return err_set(e, ERR_INVALID, "argv[%zu]: not a string", i);
		strv_add(ret, json_string_value(one));
	}
	return json_array_size(list) ? strv_check(ret, e) : err_set(e, ERR_INVALID, "argv: empty");
}

static int add_env(json_t *env, struct strv *ret, struct err *e)
{
	const char *key;
	json_t *value;

	json_object_foreach(env, key, value) {
		if (!json_is_string(value) || !*key || strchr(key, '='))
			return err_set(e, ERR_INVALID, "env.%.100s: not a variable", key);
		strv_addf(ret, "%s=%s", key, json_string_value(value));
	}
	return json_object_size(env) ? strv_check(ret, e) : 0;
}

/* The container's variables, but for those that the client has set. */
static int add_defaults(const struct container *c, struct strv *env, struct err *e)
{
	size_t given = env->n;

	for (size_t i = 0; c && i < c->env.n; i++) {
		size_t name = strcspn(c->env.v[i], "=") + 1;
		bool set = false;

		for (size_t k = 0; k < given && !set; k++)
			set = strncmp(env->v[k], c->env.v[i], name) == 0;
		if (!set)
			strv_add(env, c->env.v[i]);
	}
	return env->n ? strv_check(env, e) : 0;
}

static int read_tty(json_t *tty, struct guest_exec *req, struct err *e)
{
	int rows, cols;

	if (!tty || json_is_null(tty))
		return 0;
	if (json_get(tty, "tty", e, "{s:i, s:i}", "rows", &rows, "cols", &cols) < 0)
		return -1;
	if (rows < 1 || rows > 65535 || cols < 1 || cols > 65535)
		return err_set(e, ERR_INVALID, "tty: rows and cols are between 1 and 65535");
	req->tty = true;
	req->rows = (uint16_t)rows;
	req->cols = (uint16_t)cols;
	return 0;
}

static int read_exec_args(struct request *rq, struct exec_args *a, struct err *e)
{
	*a = (struct exec_args){.output_max = DEFAULT_CAPTURE};
	if (json_get(rq->args, "args", e, "{s:s, s?s, s:o, s?s, s?o, s?s, s?F, s?b, s?I, s?I, s?o}",
		    "sandbox", &a->at.sandbox, "vm", &a->at.vm, "argv", &a->argv, "cwd", &a->at.cwd,
		    "env", &a->env, "user", &a->at.user, "timeout", &a->timeout, "capture",
		    &a->capture, "output_max", &a->output_max, "input_size", &a->input_size, "tty",
		    &a->tty) < 0)
		return -1;
	if (!json_is_array(a->argv) || (a->env && !json_is_object(a->env)))
		return err_set(
			e, ERR_INVALID, "argv is a list of strings, env an object of strings");
	if (a->output_max < 1 || a->timeout < 0 || a->input_size < 0)
		return err_set(e, ERR_INVALID, "output_max, timeout and input_size are positive");
	return 0;
}

static int exit_to_json(const struct guest_exit *end, json_t **ret, struct err *e)
{
	static const char *const stages[] = {NULL, "user", "cwd", "exec"};

	if (json_make(ret, e, "{s:i, s:i, s:b, s:I, s:I}", "exit_code", end->code, "signal",
		    end->signal, "timed_out", end->timed_out, "stdout_bytes",
		    (json_int_t)end->stdout_bytes, "stderr_bytes",
		    (json_int_t)end->stderr_bytes) < 0)
		return -1;
	if (end->stage != GUEST_RAN)
		json_object_set_new(*ret, "failure",
			json_pack("{s:s, s:i, s:o}", "stage", stages[end->stage], "errno", end->sys,
				"message", json_text(end->message)));
	return 0;
}

int handle_exec(struct request *rq, json_t **ret, struct err *e)
{
	auto_strv struct strv argv = {0}, env = {0};
	struct guest_io io = request_io(rq);
	struct guest_exit end = {0};
	struct guest_exec req = {0};
	struct exec_args a;
	struct visit v;
	int rc;

	if (read_exec_args(rq, &a, e) < 0 || add_strings(a.argv, &argv, e) < 0 ||
		add_env(a.env, &env, e) < 0 || read_tty(a.tty, &req, e) < 0)
		return -1;
	req.argv = (const char *const *)argv.v;
	req.timeout = a.timeout;
	req.capture_max = a.capture ? (uint64_t)a.output_max : 0;
	req.input = rq->input != INPUT_NONE;
	req.input_size = (uint64_t)a.input_size;
	if (visit_begin(rq, &a.at, &v, e) < 0)
		return -1;
	req.user = v.user;
	req.cwd = v.cwd;
	rc = add_defaults(v.container, &env, e);
	req.env = (const char *const *)env.v;
	request_touch(rq, v.b.sb, req.tty ? TOUCH_TYPED : TOUCH_RAN);
	commands_begin(&v.b.sb->commands, v.vm, req.argv);
	if (rc == 0)
		rc = guest_exec(v.guest, &rq->op, &req, &io, &end, e);
	commands_end(&v.b.sb->commands, v.vm);
	if (visit_end(&v, rc, e) < 0)
		return -1;
	return exit_to_json(&end, ret, e);
}

/* ---- files ---- */

static struct guest_path path_in(const struct visit *v, const struct where *w)
{
	return (struct guest_path){.user = v->user, .cwd = v->cwd, .path = w->path};
}

int handle_read(struct request *rq, json_t **ret, struct err *e)
{
	struct guest_io io = request_io(rq);
	struct guest_stat st = {0};
	struct guest_path at;
	struct where w = {0};
	json_int_t max = 0;
	struct visit v;

	if (json_get(rq->args, "args", e, "{s:s, s?s, s:s, s?s, s?s, s?I}", "sandbox", &w.sandbox,
		    "vm", &w.vm, "path", &w.path, "cwd", &w.cwd, "user", &w.user, "max", &max) < 0)
		return -1;
	if (max < 0)
		return err_set(e, ERR_INVALID, "max is negative");
	if (visit_begin(rq, &w, &v, e) < 0)
		return -1;
	at = path_in(&v, &w);
	if (visit_end(&v, guest_read(v.guest, &rq->op, &at, (uint64_t)max, &io, &st, e), e) < 0)
		return -1;
	return json_make(
		ret, e, "{s:I, s:i}", "size", (json_int_t)st.size, "mode", (int)(st.mode & 07777));
}

int handle_write(struct request *rq, json_t **ret, struct err *e)
{
	struct guest_io io = request_io(rq);
	struct guest_write req = {0};
	struct guest_stat st = {0};
	struct where w = {0};
	int mode = 0, append = 0, parents = 1;
	struct visit v;

	if (json_get(rq->args, "args", e, "{s:s, s?s, s:s, s?s, s?s, s?i, s?b, s?b}", "sandbox",
		    &w.sandbox, "vm", &w.vm, "path", &w.path, "cwd", &w.cwd, "user", &w.user,
		    "mode", &mode, "append", &append, "parents", &parents) < 0)
		return -1;
	if (mode < 0 || mode > 07777)
		return err_set(e, ERR_INVALID, "mode is between 0 and 4095 (07777)");
	if (rq->input == INPUT_NONE)
		return err_set(e, ERR_INVALID, "write needs input");
	if (visit_begin(rq, &w, &v, e) < 0)
		return -1;
	request_touch(rq, v.b.sb, TOUCH_WROTE);
	req = (struct guest_write){.at = path_in(&v, &w),
		.mode = (uint32_t)mode,
		.append = append,
		.parents = parents};
	if (visit_end(&v, guest_write(v.guest, &rq->op, &req, &io, &st, e), e) < 0)
		return -1;
	return json_make(ret, e, "{s:I}", "size", (json_int_t)st.size);
}

struct listing {
	json_t *entries;
	size_t bytes; /* about the size of the answer */
};

static int add_entry(void *arg, const struct guest_entry *entry, struct err *e)
{
	struct listing *l = arg;
	const char *type = S_ISREG(entry->mode)   ? "file"
			   : S_ISDIR(entry->mode) ? "dir"
			   : S_ISLNK(entry->mode) ? "link"
						  : "other";
	json_t *j = json_pack("{s:o, s:s, s:i, s:I, s:I}", "name", json_text(entry->name), "type",
		type, "mode", (int)(entry->mode & 07777), "size", (json_int_t)entry->size, "mtime",
		(json_int_t)entry->mtime);

	if (!j)
		return err_oom(e);
	if (S_ISLNK(entry->mode))
		json_object_set_new(j, "target", json_text(entry->target));
	json_array_append_new(l->entries, j);
	l->bytes += 100 + 4 * (strlen(entry->name) + strlen(entry->target));
	if (l->bytes > LIST_MAX)
		return err_set(e, ERR_LIMIT, "the directory has too many entries to list");
	return 0;
}

/* For operations with no more arguments than sandbox, vm, path, cwd and user. */
static int read_where(struct request *rq, struct where *w, struct err *e)
{
	*w = (struct where){0};
	return json_get(rq->args, "args", e, "{s:s, s?s, s:s, s?s, s?s}", "sandbox", &w->sandbox,
		"vm", &w->vm, "path", &w->path, "cwd", &w->cwd, "user", &w->user);
}

int handle_list(struct request *rq, json_t **ret, struct err *e)
{
	auto_json json_t *entries = json_array();
	struct listing l = {.entries = entries};
	struct guest_path at;
	struct where w;
	struct visit v;

	if (read_where(rq, &w, e) < 0 || visit_begin(rq, &w, &v, e) < 0)
		return -1;
	at = path_in(&v, &w);
	if (visit_end(&v, guest_list(v.guest, &rq->op, &at, add_entry, &l, e), e) < 0)
		return -1;
	return json_make(ret, e, "{s:O}", "entries", entries);
}

int handle_mkdir(struct request *rq, json_t **ret, struct err *e)
{
	struct guest_path at;
	struct where w = {0};
	struct visit v;
	int mode = 0;

	(void)ret;
	if (json_get(rq->args, "args", e, "{s:s, s?s, s:s, s?s, s?s, s?i}", "sandbox", &w.sandbox,
		    "vm", &w.vm, "path", &w.path, "cwd", &w.cwd, "user", &w.user, "mode",
		    &mode) < 0 ||
		visit_begin(rq, &w, &v, e) < 0)
		return -1;
	at = path_in(&v, &w);
	request_touch(rq, v.b.sb, TOUCH_WROTE);
	return visit_end(&v, guest_mkdir(v.guest, &rq->op, &at, (uint32_t)mode & 07777, e), e);
}

int handle_symlink(struct request *rq, json_t **ret, struct err *e)
{
	const char *target;
	struct guest_path at;
	struct where w = {0};
	struct visit v;

	(void)ret;
	if (json_get(rq->args, "args", e, "{s:s, s?s, s:s, s?s, s?s, s:s}", "sandbox", &w.sandbox,
		    "vm", &w.vm, "path", &w.path, "cwd", &w.cwd, "user", &w.user, "target",
		    &target) < 0 ||
		visit_begin(rq, &w, &v, e) < 0)
		return -1;
	at = path_in(&v, &w);
	request_touch(rq, v.b.sb, TOUCH_WROTE);
	return visit_end(&v, guest_symlink(v.guest, &rq->op, &at, target, e), e);
}
