#include "driver/proxmox/api/task.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "driver/proxmox/api/form.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"

/* The pause between two polls grows with the time that has passed: so the end of a short task is
 * noticed at once, and a long task costs few requests. */
#define PAUSE_LEAST  0.04
#define PAUSE_MOST   2.0
#define PAUSE_FACTOR 0.12
enum { TASKS_MAX = 1000 };

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

/* Appends the first error in the task's log. The last line, "TASK ERROR: ...", only repeats the
 * status. */
static void add_log(
	struct pve_api *api, const struct op *op, const char *node, const char *upid, struct err *e)
{
	auto_json json_t *log = NULL;
	json_t *line;
	struct err ignored;
	char text[160];
	size_t i;

	if (pve_do(api, op, "GET", json_pack("{s:i}", "limit", 200), 0, &log, &ignored,
		    "/nodes/%s/tasks/%s/log", node, upid) < 0)
		return;
	json_array_foreach(log, i, line) {
		const char *t = json_string_value(json_object_get(line, "t"));

		if (!t || (!str_starts(t, "ERROR") && !str_starts(t, "error")))
			continue;
		str_escape(t, strlen(t), text, sizeof(text));
		if (!strstr(e->msg, text)) {
			size_t n = strlen(e->msg);

			snprintf(e->msg + n, sizeof(e->msg) - n, " (%s)", text);
		}
		return;
	}
}

static int ended(struct pve_api *api, const struct op *op, const char *node, const char *upid,
	const char *exitstatus, bool *ret_warned, struct err *e)
{
	char text[512], type[32] = "";
	const char *p = upid;
	bool warned = str_starts(exitstatus, "WARNINGS");

	/* A task that ends with warnings has done its main work. */
	if (warned || strcmp(exitstatus, "OK") == 0) {
		if (ret_warned)
			*ret_warned = warned;
		return 0;
	}
	for (int i = 0; i < 5 && p; i++) {
		p = strchr(p, ':');
		p = p ? p + 1 : NULL;
	}
	if (p)
		snprintf(type, sizeof(type), "%.*s", (int)strcspn(p, ":"), p);
	str_escape(exitstatus, strlen(exitstatus), text, sizeof(text));
	err_set(e, ERR_BACKEND, "task %s on node %s failed: %s", type, node, text);
	add_log(api, op, node, upid, e);
	return -1;
}

int pve_task_wait(struct pve_api *api, const struct op *op, const json_t *upid, bool *ret_warned,
	struct err *e)
{
	const char *id = json_string_value(upid);
	int64_t began = now_ns();
	char node[UPID_NODE_MAX + 1];

	if (upid_node(id, node, e) < 0)
		return -1;
	for (;;) {
		double pause = (double)(now_ns() - began) / 1e9 * PAUSE_FACTOR;
		auto_json json_t *status = NULL;
		const char *state, *exitstatus;

		pause = pause < PAUSE_LEAST ? PAUSE_LEAST : pause > PAUSE_MOST ? PAUSE_MOST : pause;
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

static int run_once(struct pve_api *api, const struct op *op, const char *method,
	const json_t *params, unsigned flags, const char *path, struct err *e)
{
	auto_json json_t *upid = NULL;

	if (pve_call(api, op, method, path, params, flags, &upid, e) < 0)
		return -1;
	return pve_task_wait(api, op, upid, NULL, e);
}

int pve_run(struct pve_api *api, const struct op *op, const char *method, json_t *params,
	unsigned flags, struct err *e, const char *fmt, ...)
{
	auto_json __attribute__((unused)) json_t *used = params;
	struct op budget = op_within(op, PVE_BUSY_SECONDS);
	auto_free char *path = NULL;
	va_list ap;
	int rc;

	va_start(ap, fmt);
	rc = form_vpath(&path, fmt, ap, e);
	va_end(ap);
	if (rc < 0)
		return -1;
	/* The call and its task have one budget. */
	while (run_once(api, op, method, params, flags & ~(unsigned)PVE_PATIENT, path, e) < 0)
		if (!pve_wait_busy(&budget, flags, e))
			return -1;
	return 0;
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
