#include "daemon/sandbox-make.h"

#include "daemon/registry/describe.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/system/log.h"

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

/* Some drivers learn only while they make the sandbox what is in it: a Vagrantfile is a program. */
static int take_final_spec(
	struct daemon *d, struct sandbox *sb, struct driver_sandbox *driven, struct err *e)
{
	struct sandbox_spec *spec;

	if (!sb->driver->ops->final_spec)
		return 0;
	if (sb->driver->ops->final_spec(driven, &spec, e) < 0)
		return -1;
	registry_set_spec(d->registry, sb, spec);
	return 0;
}

/* Makes a sandbox that is admitted and registered, or leaves nothing of it. */
static int make_sandbox(struct daemon *d, struct op *op, struct sandbox *sb,
	const struct sandbox_origin *from, bool detach, struct err *e)
{
	struct op cleanup = op_for_cleanup(sb->driver->ops->removal_seconds);
	struct sandbox_request req = {
		.id = sb->id, .spec = sb->spec, .labels = sb->labels, .access = from->access};
	struct driver_sandbox *driven;
	struct err undo;

	if (journal_new_sandbox(d, sb, e) < 0)
		return -1;
	if (from->driven ? sb->driver->ops->create_from(
				   from->driven, op, from->snapshot, &req, &driven, e) < 0
			 : sb->driver->ops->create(sb->driver, op, &req, &driven, e) < 0) {
		if (journal_sandbox_remove_if_empty(d->journal, sb->id, &undo) < 0)
			log_err(op, LOG_ERROR, &undo, "cannot forget %s", sb->id);
		return -1;
	}
	if (take_final_spec(d, sb, driven, e) < 0 ||
		registry_running(d->registry, sb, driven, detach, e) < 0) {
		if (sb->driver->ops->destroy(sb->driver, &cleanup, driven, &undo) < 0)
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

	/* Until the sandbox runs, we give its promised memory back; later, whoever removes it. */
	if (registry_add(d->registry, req, &sb, e) < 0) {
		admission_leave(d->admission, req->ram_mb);
		json_decref(req->labels);
		spec_free(req->spec);
		return -1;
	}
	log_msg(op, LOG_INFO, "making sandbox %s for process %d", sb->id, req->owner_pid);
	if (make_sandbox(d, op, sb, from, detach, e) < 0) {
		registry_explain_making(d->registry, sb, e);
		log_err(op, LOG_WARN, e, "sandbox %s was not made", sb->id);
		admission_leave(d->admission, sb->ram_mb);
		registry_forget(d->registry, sb);
		return -1;
	}
	log_msg(op, LOG_INFO, "sandbox %s is up", sb->id);
	/* It must be borrowed while the answer is made: another client may remove it now. */
	if (ret)
		rc = registry_borrow(d->registry, sb->id, op, &b, e);
	if (ret && rc == 0) {
		rc = sandbox_made_to_json(sb, b.driven, ret, e);
		registry_return(d->registry, &b);
	}
	registry_unref(d->registry, sb);
	return rc;
}
