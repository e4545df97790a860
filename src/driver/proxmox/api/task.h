/* task.h - tasks: what a server does in the background. Any thread. */
#pragma once

#include "driver/proxmox/api/api.h"

/*
 * Waits for the end of a task, with polls that begin quick and back off. ERR_BACKEND with the
 * task's own words when it failed. upid: a string, as the call that started the task answered.
 * *ret_warned (may be NULL): it ended well, but not all of it was done.
 */
int pve_task_wait(struct pve_api *api, const struct op *op, const json_t *upid, bool *ret_warned,
	struct err *e);
/* pve_do, then pve_task_wait for the task that it started. */
PRINTF_LIKE(7, 8)
int pve_run(struct pve_api *api, const struct op *op, const char *method, json_t *params,
	unsigned flags, struct err *e, const char *fmt, ...);

/* Appends to a text the last lines of a task's log that say something, escaped, as " (its log:
 * ...)"; nothing if it cannot be read. status: lines that it has in it are left out. */
void pve_task_log(struct pve_api *api, const struct op *op, const char *upid, const char *status,
	char *text, size_t size);

/* The task that a call starts on a node, as the node's list of tasks names it. */
struct pve_once {
	const char *node, *type, *id;
};
/* pve_run for what must not be done twice: if an answer is lost, the list of tasks tells whether
 * the task was started. Nothing else may start such tasks at the same time. once NULL: pve_run. */
PRINTF_LIKE(8, 9)
int pve_run_once(struct pve_api *api, const struct op *op, const struct pve_once *once,
	const char *method, json_t *params, unsigned flags, struct err *e, const char *fmt, ...);

/* Lists the tasks that run on a node; some may have just ended. */
int pve_task_list(
	struct pve_api *api, const struct op *op, const char *node, json_t **ret, struct err *e);
/* Whether an item of that list is a task of the type ("qmclone") that still runs. */
bool pve_task_runs(const json_t *task, const char *type);

/* The name of a task: "UPID:node:...". */
enum { UPID_NODE_MAX = 63 };
#define UPID_NODE_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-."
/* Pure: the node that runs a task. NULL and rubbish are ERR_BACKEND. */
int upid_node(const char *upid, char ret[UPID_NODE_MAX + 1], struct err *e);
