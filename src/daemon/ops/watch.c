/*
 * The operation watch: what happens to the sandboxes, as it happens. A change rings a bell; we look
 * at all that there is and send what differs from what the client knows. So a client that reads
 * slowly is told less often, and never something wrong.
 */
#include <string.h>

#include "daemon/figures.h"
#include "daemon/request.h"
#include "util/auto.h"
#include "util/json.h"

/* However often things change, a client is told so often and no oftener. */
#define GAP_SECONDS 0.05
/* Not every driver rings when a VM changes. */
#define LOOK_SECONDS 5.0
#define FIGURES_MIN  1.0
#define FIGURES_MAX  3600.0

struct watching {
	struct request *rq;
	const char *only;    /* a sandbox's id; NULL: all */
	json_t *known;       /* what the client knows: SANDBOX objects by id, without their age */
	double every;        /* seconds from figures to figures; 0: none */
	int64_t figures_due; /* when they are sent next */
};

static int send_event(struct watching *w, json_t *event, struct err *e)
{
	json_t *msg =
		json_pack("{s:s, s:I, s:o}", "type", "event", "id", w->rq->id, "event", event);

	return session_send(w->rq->session, &w->rq->op, msg, (struct bytes){0}, e);
}

static int tell_sandbox(struct watching *w, json_t *sb, struct err *e)
{
	const char *id = json_string_value(json_object_get(sb, "id"));

	json_object_del(sb, "age"); /* it changes all the time; "created" tells the same */
	if (!id || json_equal(json_object_get(w->known, id), sb))
		return 0;
	if (json_object_set(w->known, id, sb) < 0)
		return err_oom(e);
	return send_event(w, json_pack("{s:s, s:O}", "what", "sandbox", "sandbox", sb), e);
}

static bool is_among(const json_t *list, const char *id)
{
	const json_t *sb;
	size_t i;

	json_array_foreach(list, i, sb)
		if (strcmp(json_string_value(json_object_get(sb, "id")), id) == 0)
			return true;
	return false;
}

static int tell_gone(struct watching *w, const json_t *list, struct err *e)
{
	const char *id;
	json_t *sb;
	void *next;

	json_object_foreach_safe(w->known, next, id, sb)
	{
		if (is_among(list, id))
			continue;
		if (send_event(w, json_pack("{s:s, s:s}", "what", "gone", "id", id), e) < 0)
			return -1;
		json_object_del(w->known, id);
	}
	return 0;
}

/* Returns 1 when the one sandbox that is watched has gone. */
static int tell_changes(struct watching *w, struct err *e)
{
	auto_json json_t *list = NULL;
	json_t *sb;
	size_t i;

	if (registry_to_json(w->rq->daemon->registry, w->only, &list, e) < 0) {
		if (!w->only || e->kind != ERR_NOT_FOUND)
			return -1;
		list = json_array();
	}
	json_array_foreach(list, i, sb)
		if (tell_sandbox(w, sb, e) < 0)
			return -1;
	if (tell_gone(w, list, e) < 0)
		return -1;
	return w->only && json_array_size(list) == 0;
}

static int tell_figures(struct watching *w, struct err *e)
{
	auto_json json_t *all = NULL;

	if (w->every <= 0 || now_ns() < w->figures_due)
		return 0;
	w->figures_due = now_ns() + (int64_t)(w->every * 1e9);
	if (figures_take(w->rq->daemon, &w->rq->op, &all, e) < 0)
		return -1;
	for (size_t i = json_array_size(all); w->only && i-- > 0;)
		if (strcmp(json_string_value(json_object_get(json_array_get(all, i), "sandbox")),
			    w->only) != 0)
			json_array_remove(all, i);
	return send_event(w, json_pack("{s:s, s:O}", "what", "figures", "vms", all), e);
}

static int wait_for_news(struct watching *w, struct bell_listener *bell, struct err *e)
{
	const struct op *op = &w->rq->op;
	double left = (double)(w->figures_due - now_ns()) / 1e9;
	struct op soon = op_within(op, w->every <= 0 || left > LOOK_SECONDS ? LOOK_SECONDS
				       : left > 0.001                       ? left
									    : 0.001);

	if (op_wait_fd(&soon, bell->fd, POLLIN, e) < 0)
		return e->kind == ERR_TIMEOUT ? op_check(op, e) : -1;
	return op_pause(op, GAP_SECONDS, e);
}

static int watch(struct watching *w, struct bell_listener *bell, struct err *e)
{
	bool listed = false;
	int rc;

	for (;;) {
		bell_heard(bell);
		rc = tell_changes(w, e);
		if (rc < 0)
			return -1;
		if (!listed && send_event(w, json_pack("{s:s}", "what", "listed"), e) < 0)
			return -1;
		listed = true;
		if (rc > 0)
			return 0;
		if (tell_figures(w, e) < 0 || wait_for_news(w, bell, e) < 0)
			return -1;
	}
}

int handle_watch(struct request *rq, json_t **ret, struct err *e)
{
	auto_json json_t *known = json_object();
	struct bell *changes = registry_changes(rq->daemon->registry);
	struct watching w = {.rq = rq, .known = known};
	const char *sandbox = NULL;
	struct bell_listener bell;
	char id[16];
	int rc;

	(void)ret;
	if (json_get(rq->args, "args", e, "{s?s, s?F}", "sandbox", &sandbox, "figures", &w.every) <
		0)
		return -1;
	if (w.every != 0 && (w.every < FIGURES_MIN || w.every > FIGURES_MAX))
		return err_set(e, ERR_INVALID, "args.figures: not between %g and %g", FIGURES_MIN,
			FIGURES_MAX);
	if (sandbox && registry_resolve(rq->daemon->registry, sandbox, id, e) < 0)
		return -1;
	w.only = sandbox ? id : NULL;
	if (!known)
		return err_oom(e);
	if (bell_listen(changes, &bell, e) < 0)
		return -1;
	rc = watch(&w, &bell, e);
	bell_leave(changes, &bell);
	return rc;
}
