/* Operations on sandboxes as a whole: up, validate, ls, rm, detach. */
#include <malloc.h>
#include <string.h>

#include "daemon/removal.h"
#include "daemon/request.h"
#include "daemon/sandbox-make.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/log.h"

enum { LABELS_MAX = 64, LABEL_TEXT_MAX = 1024 };

int check_labels(json_t *labels, struct err *e)
{
	const char *key;
	json_t *value;

	if (!json_is_object(labels))
		return err_set(e, ERR_INVALID, "labels: not an object");
	if (json_object_size(labels) > LABELS_MAX)
		return err_set(e, ERR_INVALID, "labels: more than %d", LABELS_MAX);
	json_object_foreach(labels, key, value)
	{
		if (!json_is_string(value))
			return err_set(e, ERR_INVALID, "labels.%.64s: not a string", key);
		if (strlen(key) > LABEL_TEXT_MAX || json_string_length(value) > LABEL_TEXT_MAX)
			return err_set(e, ERR_INVALID, "labels.%.64s: longer than %d bytes", key,
				LABEL_TEXT_MAX);
	}
	return 0;
}

/* Everything that can be refused before anything is made. */
int read_spec(struct request *rq, json_t *j, struct sandbox_spec **ret, struct driver **ret_driver,
	struct err *e)
{
	auto_spec struct sandbox_spec *spec = NULL;

	if (spec_parse(j, &spec, e) < 0 ||
		daemon_driver(rq->daemon, spec_driver_name(spec->driver), ret_driver, e) < 0 ||
		(*ret_driver)->ops->validate(*ret_driver, spec, e) < 0)
		return -1;
	*ret = take_ptr(&spec);
	return 0;
}

int handle_validate(struct request *rq, json_t **ret, struct err *e)
{
	auto_spec struct sandbox_spec *spec = NULL;
	struct driver *drv;
	json_t *j;

	if (json_get(rq->args, "args", e, "{s:o}", "spec", &j) < 0 ||
		read_spec(rq, j, &spec, &drv, e) < 0)
		return -1;
	return spec_to_json(spec, ret, e) < 0 ? -1 : json_make(ret, e, "{s:o}", "spec", *ret);
}

static int journal_new_sandbox(struct daemon *d, const struct sandbox *sb, struct err *e)
{
	auto_json json_t *spec = NULL;
	auto_free char *labels_text = NULL, *spec_text = NULL;
	struct journal_sandbox row = {
		.id = sb->id, .driver = sb->driver->ops->name, .created = sb->created};

	if (spec_to_json(sb->spec, &spec, e) < 0 || json_to_str(spec, &spec_text, e) < 0 ||
		json_to_str(sb->labels, &labels_text, e) < 0)
		return -1;
	row.labels = labels_text;
	row.spec = spec_text;
	return journal_sandbox_add(d->journal, &row, e);
}

/* A Vagrantfile, say, has told what VMs there are. */
static int take_final_spec(struct daemon *d, struct sandbox *sb, struct box *box, struct err *e)
{
	struct sandbox_spec *spec;

	if (!sb->driver->ops->final_spec)
		return 0;
	if (sb->driver->ops->final_spec(box, &spec, e) < 0)
		return -1;
	registry_set_spec(d->registry, sb, spec);
	return 0;
}

/* The sandbox has been admitted and registered: make it, or leave nothing. */
static int make_box(struct daemon *d, struct op *op, struct sandbox *sb,
	const struct sandbox_origin *from, bool detach, struct err *e)
{
	struct op cleanup = op_for_cleanup(sb->driver->ops->removal_seconds);
	struct box_request req = {
		.id = sb->id, .spec = sb->spec, .labels = sb->labels, .access = from->access};
	struct box *box;
	struct err undo;

	if (journal_new_sandbox(d, sb, e) < 0)
		return -1;
	if (from->box ? sb->driver->ops->create_from(from->box, op, from->snapshot, &req, &box, e) <
				0
		      : sb->driver->ops->create(sb->driver, op, &req, &box, e) < 0) {
		if (journal_sandbox_remove_if_empty(d->journal, sb->id, &undo) < 0)
			log_err(op, LOG_ERROR, &undo, "cannot forget %s", sb->id);
		return -1;
	}
	if (take_final_spec(d, sb, box, e) < 0 ||
		registry_running(d->registry, sb, box, detach, e) < 0) {
		if (sb->driver->ops->destroy(sb->driver, &cleanup, box, &undo) < 0)
			log_err(op, LOG_ERROR, &undo, "cannot remove %s", sb->id);
		return -1;
	}
	return 0;
}

int sandbox_make(struct daemon *d, struct sandbox_new *req, const struct sandbox_origin *from,
	bool detach, json_t **ret, struct err *e)
{
	struct op *op = req->maker;
	struct borrower b;
	struct sandbox *sb;
	int rc = 0;

	/* Who removes a sandbox gives its memory back: we, until it runs. */
	if (registry_add(d->registry, req, &sb, e) < 0) {
		admission_leave(d->admission, req->ram_mb);
		json_decref(req->labels);
		spec_free(req->spec);
		return -1;
	}
	log_msg(op, LOG_INFO, "making sandbox %s for process %d", sb->id, req->owner_pid);
	if (make_box(d, op, sb, from, detach, e) < 0) {
		registry_explain_making(d->registry, sb, e);
		log_err(op, LOG_WARN, e, "sandbox %s was not made", sb->id);
		admission_leave(d->admission, sb->ram_mb);
		registry_forget(d->registry, sb);
		return -1;
	}
	log_msg(op, LOG_INFO, "sandbox %s is up", sb->id);
	/* Borrowed for the answer: somebody may remove it at this very moment. */
	if (ret)
		rc = registry_borrow(d->registry, sb->id, op, &b, e);
	if (ret && rc == 0) {
		rc = json_make(ret, e, "{s:s, s:o}", "sandbox", sb->id, "vms",
			sandbox_vms_to_json(sb, b.box));
		registry_return(d->registry, &b);
	}
	registry_unref(d->registry, sb);
	return rc;
}

int handle_up(struct request *rq, json_t **ret, struct err *e)
{
	auto_spec struct sandbox_spec *spec = NULL;
	auto_json json_t *none = json_object();
	json_t *j, *labels = none, *access = NULL;
	struct sandbox_new req = {
		.lease = rq->session->lease, .owner_pid = rq->session->peer_pid, .maker = &rq->op};
	int detach = 0, wait = 1, got;

	if (json_get(rq->args, "args", e, "{s:o, s?o, s?o, s?b, s?b}", "spec", &j, "labels",
		    &labels, "access", &access, "detach", &detach, "wait", &wait) < 0)
		return -1;
	if (check_labels(labels, e) < 0 || read_spec(rq, j, &spec, &req.driver, e) < 0)
		return -1;
	req.ram_mb = spec_total_ram(spec, req.driver);
	got = standby_take(rq->daemon, spec,
		&(struct sandbox_taker){.labels = labels,
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
	if (sandbox_make(rq->daemon, &req, &(struct sandbox_origin){.access = access}, detach, ret,
		    e) < 0)
		return -1;
	/* The runner and more went through the heap once; a sandbox at rest needs little of that.
	 */
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
	json_t *met; /* as named: those that were there */
};

static bool fits_choice(const struct sandbox *sb, const struct choice *c)
{
	const char *key;
	json_t *value;

	if (c->all || json_object_get(c->named, sb->id))
		return true;
	if (!c->labels || json_object_size(c->labels) == 0)
		return false;
	json_object_foreach(c->labels, key, value)
	{
		if (!json_equal(json_object_get(sb->labels, key), value))
			return false;
	}
	return true;
}

/* Takes down whom it chose: one that was still being made is removed by its maker, not by us. */
static bool chosen(const struct sandbox *sb, void *arg)
{
	struct choice *c = arg;

	if (!fits_choice(sb, c))
		return false;
	json_object_set_new(c->met, sb->id, json_true());
	return true;
}

/* Prefixes become ids first, so that a wrong one is an error before anything is removed. */
static int resolve_all(struct daemon *d, json_t *prefixes, json_t *ret_named, struct err *e)
{
	json_t *one;
	size_t i;

	if (prefixes && !json_is_array(prefixes))
		return err_set(e, ERR_INVALID, "args.sandboxes: expected a list");
	json_array_foreach(prefixes, i, one)
	{
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

int handle_rm(struct request *rq, json_t **ret, struct err *e)
{
	auto_json json_t *named = json_object(), *met = json_object(), *removed = json_array();
	json_t *prefixes = NULL, *ignored;
	struct choice choice = {.named = named, .met = met};
	const char *id;
	int all = 0;

	if (json_get(rq->args, "args", e, "{s?o, s?b, s?o}", "sandboxes", &prefixes, "all", &all,
		    "labels", &choice.labels) < 0)
		return -1;
	choice.all = all;
	if (choice.labels && check_labels(choice.labels, e) < 0)
		return -1;
	if (!all && !prefixes && json_object_size(choice.labels) == 0)
		return err_set(e, ERR_INVALID, "args: say which: sandboxes, labels or all");
	if (resolve_all(rq->daemon, prefixes, named, e) < 0)
		return -1;
	if (removal_run(rq->daemon, chosen, &choice, e) < 0)
		return err_wrap(e, "not everything could be removed; moat gc will try again");
	/* What was meant is gone, even if its maker or somebody else removed it for us. */
	json_object_foreach(prefixes ? named : met, id, ignored)
		json_array_append_new(removed, json_string(id));
	return json_make(ret, e, "{s:O}", "removed", removed);
}

int handle_detach(struct request *rq, json_t **ret, struct err *e)
{
	const char *id;

	(void)ret;
	if (json_get(rq->args, "args", e, "{s:s}", "sandbox", &id) < 0)
		return -1;
	return registry_detach(rq->daemon->registry, id, e);
}
