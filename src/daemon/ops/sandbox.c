/* Operations on sandboxes as a whole: up, validate, ls, rm, detach. */
#include <malloc.h>
#include <string.h>

#include "daemon/removal.h"
#include "daemon/request.h"
#include "daemon/ops/args.h"
#include "daemon/ops/containers.h"
#include "daemon/sandbox-make.h"
#include "daemon/standby.h"
#include "util/auto.h"
#include "util/json.h"

int handle_validate(struct request *rq, json_t **ret, struct err *e)
{
	auto_spec struct sandbox_spec *spec = NULL;
	struct driver *drv;
	json_t *j;

	if (json_get(rq->args, "args", e, "{s:o}", "spec", &j) < 0 ||
		read_spec(rq, j, &spec, &drv, e) < 0 ||
		admission_could_fit(rq->daemon->admission, spec_total_ram(spec, drv), e) < 0)
		return -1;
	return spec_to_json(spec, ret, e) < 0 ? -1 : json_make(ret, e, "{s:o}", "spec", *ret);
}

int handle_up(struct request *rq, json_t **ret, struct err *e)
{
	auto_spec struct sandbox_spec *spec = NULL;
	auto_json json_t *none = json_object();
	json_t *j, *labels = none, *access = NULL;
	const char *name = NULL;
	struct sandbox_new req = {
		.lease = rq->session->lease, .owner_pid = rq->session->peer_pid, .maker = &rq->op};
	int detach = 0, wait = 1, got;

	if (json_get(rq->args, "args", e, "{s:o, s?s, s?o, s?o, s?b, s?b}", "spec", &j, "name",
		    &name, "labels", &labels, "access", &access, "detach", &detach, "wait",
		    &wait) < 0)
		return -1;
	if (name &&
		(name_check(name, e) < 0 || registry_check_name(rq->daemon->registry, name, e) < 0))
		return -1;
	if (check_labels(labels, e) < 0 || read_spec(rq, j, &spec, &req.driver, e) < 0 ||
		get_containers(rq, req.driver, &spec, e) < 0)
		return -1;
	req.ram_mb = spec_total_ram(spec, req.driver);
	got = standby_take(rq->daemon, spec,
		&(struct sandbox_taker){.labels = labels,
			.name = name,
			.lease = req.lease,
			.owner_pid = req.owner_pid,
			.op = &rq->op},
		detach, ret, e);
	if (got)
		return got < 0 ? -1 : 0;
	if (admission_enter(rq->daemon->admission, &rq->op, req.ram_mb,
		    wait ? ADMISSION_WAIT : ADMISSION_TRY, e) < 0)
		return -1;
	req.spec = take_ptr(&spec);
	req.labels = json_incref(labels);
	req.name = name;
	if (sandbox_make(rq->daemon, &req, &(struct sandbox_origin){.access = access}, detach, ret,
		    e) < 0)
		return -1;
	/* Making a sandbox takes much more heap than having one: the runner's bytes, for one. */
	malloc_trim(0);
	return 0;
}

int handle_ls(struct request *rq, json_t **ret, struct err *e)
{
	const char *id = NULL;
	json_t *all;

	if (json_get(rq->args, "args", e, "{s?s}", "sandbox", &id) < 0 ||
		registry_to_json(rq->daemon->registry, id, &all, e) < 0)
		return -1;
	return json_make(ret, e, "{s:o}", "sandboxes", all);
}

/* ---- rm ---- */

struct choice {
	json_t *named;  /* object: its keys are ids */
	json_t *labels; /* object, or NULL */
	bool all;
	bool leased;  /* only those that still belong to a connection */
	json_t *met;  /* object: its keys are ids of those that there were */
	json_t *kept; /* object: its keys are ids of those that were detached */
};

static bool fits_choice(const struct sandbox *sb, const struct choice *c)
{
	const char *key;
	json_t *value;

	if (c->all || json_object_get(c->named, sb->id))
		return true;
	if (!c->labels || json_object_size(c->labels) == 0)
		return false;
	json_object_foreach(c->labels, key, value) {
		if (!json_equal(json_object_get(sb->labels, key), value))
			return false;
	}
	return true;
}

/* Writes down the ids that it chose: a sandbox that is still being made is removed by its maker,
 * and removal_run does not tell. */
static bool chosen(const struct sandbox *sb, void *arg)
{
	struct choice *c = arg;

	if (!fits_choice(sb, c))
		return false;
	if (c->leased && sb->lease == 0) {
		json_object_set_new(c->kept, sb->id, json_true());
		return false;
	}
	json_object_set_new(c->met, sb->id, json_true());
	return true;
}

/* Names and prefixes become ids first, so that a wrong one is an error before anything is removed.
 */
static int resolve_all(struct daemon *d, json_t *list, json_t *ret_named, struct err *e)
{
	json_t *one;
	size_t i;

	if (list && !json_is_array(list))
		return err_set(e, ERR_INVALID, "args.sandboxes: expected a list");
	json_array_foreach(list, i, one) {
		char id[16];

		if (!json_is_string(one))
			return err_set(e, ERR_INVALID, "sandboxes[%zu]: not a string", i);
		if (registry_resolve(d->registry, json_string_value(one), id, e) < 0)
			return -1;
		if (json_object_set_new(ret_named, id, json_true()) < 0)
			return err_oom(e);
	}
	return 0;
}

/* All that the client meant is gone, even what a maker or another thread has removed; but not what
 * was to be kept. */
static int tell_removed(const struct choice *c, json_t **ret, struct err *e)
{
	auto_json json_t *removed = json_array(), *kept = json_array();
	json_t *ignored;
	const char *id;

	json_object_foreach(json_object_size(c->named) ? c->named : c->met, id, ignored)
		if (!json_object_get(c->kept, id))
			json_array_append_new(removed, json_string(id));
	json_object_foreach(c->kept, id, ignored)
		json_array_append_new(kept, json_string(id));
	return json_make(ret, e, "{s:O, s:O}", "removed", removed, "kept", kept);
}

int handle_rm(struct request *rq, json_t **ret, struct err *e)
{
	auto_json json_t *named = json_object(), *met = json_object(), *kept = json_object();
	json_t *list = NULL;
	struct choice choice = {.named = named, .met = met, .kept = kept};
	int all = 0, leased = 0;

	if (json_get(rq->args, "args", e, "{s?o, s?b, s?o, s?b}", "sandboxes", &list, "all", &all,
		    "labels", &choice.labels, "leased", &leased) < 0)
		return -1;
	choice.all = all;
	choice.leased = leased;
	if (choice.labels && check_labels(choice.labels, e) < 0)
		return -1;
	if (!all && !list && json_object_size(choice.labels) == 0)
		return err_set(e, ERR_INVALID, "args: say which: sandboxes, labels or all");
	if (resolve_all(rq->daemon, list, named, e) < 0)
		return -1;
	if (removal_run(rq->daemon, &rq->op, chosen, &choice, e) < 0)
		return err_wrap(e, "not everything could be removed; moat gc will try again");
	return tell_removed(&choice, ret, e);
}

int handle_detach(struct request *rq, json_t **ret, struct err *e)
{
	const char *id;

	(void)ret;
	if (json_get(rq->args, "args", e, "{s:s}", "sandbox", &id) < 0)
		return -1;
	return registry_detach(rq->daemon->registry, id, e);
}
