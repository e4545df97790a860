#include "driver/proxmox/api/task.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "driver/proxmox/api/form.h"
#include "driver/proxmox/api/wording.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"

/* The pause between two polls grows with the time that has passed: so the end of a short task is
 * noticed at once, and a long task costs few requests. */
#define PAUSE_LEAST  0.04
#define PAUSE_MOST   2.0
#define PAUSE_FACTOR 0.12
#define SAY_AFTER    4.0
#define LOST_LOOK    0.5 /* seconds between looks for a task whose start was not answered */
enum {
	TASKS_MAX = 1000,
	LOST_LOOKS = 5,
	LOST_TRIES = 4,
	LOG_PAGE = 500,
	LOG_PAGES = 20,
	LOG_LINES = 3,
	LOG_LINE_MAX = 200,
};

int upid_node(const char *upid, char ret[UPID_NODE_MAX + 1], struct err *e)
{
	const char *node = upid ? strchr(upid, ':') : NULL;
	size_t n;

	if (!node || !str_starts(upid, "UPID:"))
		return err_set(e, ERR_BACKEND, "the server named no task");
	n = strcspn(++node, ":");
	if (n == 0 || n > UPID_NODE_MAX || node[n] != ':' || strspn(node, UPID_NODE_CHARS) < n)
		return err_set(e, ERR_BACKEND, "the server named a task that is none");
	memcpy(ret, node, n);
	ret[n] = '\0';
	return 0;
}

/* The last lines of a task's log that say something; the final one, "TASK ERROR: ...", only repeats
 * the status. */
struct log_end {
	char lines[LOG_LINES][LOG_LINE_MAX];
	unsigned n;
};

static void add_line(struct log_end *end, const char *line, const char *status)
{
	char text[LOG_LINE_MAX];

	str_escape(line, strlen(line), text, sizeof(text));
	if (!text[0] || str_starts(text, "TASK ") || strstr(status, text))
		return;
	memcpy(end->lines[end->n++ % LOG_LINES], text, sizeof(text));
}

/* The server tells lines from the beginning on only. */
static void read_log(struct pve_api *api, const struct op *op, const char *node, const char *upid,
	const char *status, struct log_end *end)
{
	size_t got = LOG_PAGE;

	for (int at = 0; got == LOG_PAGE && at < LOG_PAGES * LOG_PAGE; at += LOG_PAGE) {
		auto_json json_t *log = NULL;
		struct err ignored;
		json_t *line;
		size_t i;

		if (pve_do(api, op, "GET", json_pack("{s:i, s:i}", "start", at, "limit", LOG_PAGE),
			    0, &log, &ignored, "/nodes/%s/tasks/%s/log", node, upid) < 0)
			return;
		got = json_array_size(log);
		json_array_foreach(log, i, line) {
			const char *t = json_string_value(json_object_get(line, "t"));

			if (t)
				add_line(end, t, status);
		}
	}
}

void pve_task_log(struct pve_api *api, const struct op *op, const char *upid, const char *status,
	char *text, size_t size)
{
	struct log_end end = {.n = 0};
	char node[UPID_NODE_MAX + 1];
	struct err ignored;
	unsigned first;

	if (upid_node(upid, node, &ignored) < 0)
		return;
	read_log(api, op, node, upid, status, &end);
	first = end.n > LOG_LINES ? end.n - LOG_LINES : 0;
	for (unsigned i = first; i < end.n; i++) {
		size_t n = strlen(text);

		snprintf(text + n, size - n, "%s%s%s", i == first ? PVE_LOG_MARK : "; ",
			end.lines[i % LOG_LINES], i + 1 == end.n ? ")" : "");
	}
}

/* The type of a task: "UPID:node:pid:pstart:start:TYPE:...". */
static void type_of(const char *upid, char ret[32])
{
	const char *p = upid;

	for (int i = 0; i < 5 && p; i++) {
		p = strchr(p, ':');
		p = p ? p + 1 : NULL;
	}
	snprintf(ret, 32, "%.*s", p ? (int)strcspn(p, ":") : 0, p ? p : "");
}

static int ended(struct pve_api *api, const struct op *op, const char *node, const char *upid,
	const char *exitstatus, bool *ret_warned, struct err *e)
{
	char text[512], type[32];
	bool warned = str_starts(exitstatus, "WARNINGS");

	/* A task that ends with warnings has done its main work. */
	if (warned || strcmp(exitstatus, "OK") == 0) {
		if (ret_warned)
			*ret_warned = warned;
		return 0;
	}
	type_of(upid, type);
	str_escape(exitstatus, strlen(exitstatus), text, sizeof(text));
	err_set(e, ERR_BACKEND, "task %s on node %s failed: %s", type, node, text);
	pve_task_log(api, op, upid, exitstatus, e->msg, sizeof(e->msg));
	return -1;
}

int pve_task_wait(struct pve_api *api, const struct op *op, const json_t *upid, bool *ret_warned,
	struct err *e)
{
	const char *id = json_string_value(upid);
	double say_at = SAY_AFTER;
	int64_t began = now_ns();
	char node[UPID_NODE_MAX + 1], type[32];

	if (upid_node(id, node, e) < 0)
		return -1;
	for (;;) {
		double passed = (double)(now_ns() - began) / 1e9, pause = passed * PAUSE_FACTOR;
		auto_json json_t *status = NULL;
		const char *state, *exitstatus;

		pause = pause < PAUSE_LEAST ? PAUSE_LEAST : pause > PAUSE_MOST ? PAUSE_MOST : pause;
		if (passed >= say_at) {
			type_of(id, type);
			op_progress(op, 0, 0, "waiting for task %s of node %s, since %.0f s", type,
				node, passed);
			say_at *= 2;
		}
		if (op_pause(op, pause, e) < 0)
			return -1;
		if (pve_do(api, op, "GET", NULL, PVE_STUBBORN, &status, e,
			    "/nodes/%s/tasks/%s/status", node, id) < 0)
			return -1;
		state = json_string_value(json_object_get(status, "status"));
		exitstatus = json_string_value(json_object_get(status, "exitstatus"));
		if (!state)
			return err_set(e, ERR_BACKEND, "a task without a status");
		if (strcmp(state, "stopped") == 0)
			return ended(api, op, node, id, exitstatus ? exitstatus : "unknown",
				ret_warned, e);
	}
}

/* ---- calls that start tasks ---- */

struct running {
	struct pve_api *api;
	const struct op *op;
	const char *method, *path;
	const json_t *params;
	unsigned flags;
	const struct pve_once *once; /* NULL: the call may be made twice */
	json_t *known;               /* object: tasks of once that are not the one to be found */
};

/* Looks for a task of once that is not known. *ret: NULL if there is none. */
static int find_new(struct running *r, json_t **ret, struct err *e)
{
	auto_json json_t *tasks = NULL;
	const json_t *t;
	size_t i;

	if (pve_do(r->api, r->op, "GET",
		    json_pack("{s:s, s:s, s:i}", "source", "all", "typefilter", r->once->type,
			    "limit", TASKS_MAX),
		    0, &tasks, e, "/nodes/%s/tasks", r->once->node) < 0)
		return -1;
	*ret = NULL;
	json_array_foreach(tasks, i, t) {
		const char *id = json_string_value(json_object_get(t, "id"));
		const char *upid = json_string_value(json_object_get(t, "upid"));

		if (!id || !upid || strcmp(id, r->once->id) != 0 || json_object_get(r->known, upid))
			continue;
		json_object_set_new(r->known, upid, json_true());
		if (!*ret)
			*ret = json_string(upid);
	}
	return 0;
}

/* The answer was lost. Looks several times, since the call may still be on its way behind the
 * server's front end. */
static int find_lost(struct running *r, json_t **ret, struct err *e)
{
	*ret = NULL;
	for (int i = 0; i < LOST_LOOKS && !*ret; i++)
		if ((i > 0 && op_pause(r->op, LOST_LOOK, e) < 0) || find_new(r, ret, e) < 0)
			return -1;
	return 0;
}

/* Makes the call; *ret becomes the task's name. */
static int start(struct running *r, json_t **ret, struct err *e)
{
	unsigned flags = r->flags & ~(unsigned)PVE_PATIENT;

	if (!r->once)
		return pve_call(r->api, r->op, r->method, r->path, r->params, flags, ret, e);
	for (int tries = 1;; tries++) {
		struct err why;

		if (pve_call(r->api, r->op, r->method, r->path, r->params, flags, ret, e) == 0)
			break;
		if (e->kind != ERR_UNAVAILABLE || e->sys == PVE_NOT_SENT || tries == LOST_TRIES)
			return -1;
		if (find_lost(r, ret, &why) < 0)
			return -1;
		if (*ret)
			break;
	}
	if (json_is_string(*ret))
		json_object_set_new(r->known, json_string_value(*ret), json_true());
	return 0;
}

static int run_task(struct running *r, struct err *e)
{
	auto_json json_t *upid = NULL;

	if (start(r, &upid, e) < 0)
		return -1;
	return pve_task_wait(r->api, r->op, upid, NULL, e);
}

static int run(struct running *r, struct err *e)
{
	struct op budget = op_within(r->op, PVE_BUSY_SECONDS);
	auto_json json_t *known = json_object(), *ignored = NULL;

	r->known = known;
	if (r->once && find_new(r, &ignored, e) < 0)
		return -1;
	/* The call and its task have one budget. */
	while (run_task(r, e) < 0)
		if (!pve_wait_busy(&budget, r->flags, e))
			return -1;
	return 0;
}

int pve_run(struct pve_api *api, const struct op *op, const char *method, json_t *params,
	unsigned flags, struct err *e, const char *fmt, ...)
{
	auto_json __attribute__((unused)) json_t *used = params;
	struct running r = {
		.api = api, .op = op, .method = method, .params = params, .flags = flags};
	auto_free char *path = NULL;
	va_list ap;
	int rc;

	va_start(ap, fmt);
	rc = form_vpath(&path, fmt, ap, e);
	va_end(ap);
	r.path = path;
	return rc < 0 ? -1 : run(&r, e);
}

int pve_run_once(struct pve_api *api, const struct op *op, const struct pve_once *once,
	const char *method, json_t *params, unsigned flags, struct err *e, const char *fmt, ...)
{
	auto_json __attribute__((unused)) json_t *used = params;
	struct running r = {.api = api,
		.op = op,
		.method = method,
		.params = params,
		.flags = flags,
		.once = once};
	auto_free char *path = NULL;
	va_list ap;
	int rc;

	va_start(ap, fmt);
	rc = form_vpath(&path, fmt, ap, e);
	va_end(ap);
	r.path = path;
	return rc < 0 ? -1 : run(&r, e);
}

int pve_task_list(
	struct pve_api *api, const struct op *op, const char *node, json_t **ret, struct err *e)
{
	return pve_do(api, op, "GET",
		json_pack("{s:s, s:i}", "source", "active", "limit", TASKS_MAX), PVE_STUBBORN, ret,
		e, "/nodes/%s/tasks", node);
}

bool pve_task_runs(const json_t *task, const char *type)
{
	const char *is = json_string_value(json_object_get(task, "type"));

	/* A task that has ended may be in the list for a while. */
	return is && strcmp(is, type) == 0 && !json_object_get(task, "endtime");
}
