/* Snapshots and forks of running sandboxes. */
#include <stdio.h>
#include <string.h>

#include "daemon/removal.h"
#include "daemon/request.h"
#include "daemon/ops/args.h"
#include "daemon/sandbox-make.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/system/log.h"

enum { FORKS_MAX = 256 };

/* Borrows the sandbox if its driver has snapshots. */
static int borrow(struct request *rq, const char *id, struct borrower *b, struct err *e)
{
	if (registry_borrow(rq->daemon->registry, id, &rq->op, b, e) < 0)
		return -1;
	if (b->sb->driver->ops->snapshot)
		return 0;
	err_set(e, ERR_UNSUPPORTED, "the %s driver has no snapshots", b->sb->driver->ops->name);
	registry_return(rq->daemon->registry, b);
	return -1;
}

/* The snapshot that an operation is about. */
struct named {
	const char *name;
	/* The one VM it is of. NULL: it is of all VMs. A driver that has snapshots of one VM does
	 * not remove snapshots. */
	const char *vm_name;
	unsigned vm; /* its number */
};

static int find_named_vm(const struct sandbox *sb, struct named *n, struct err *e)
{
	if (!n->vm_name)
		return 0;
	if (!sb->driver->ops->snapshot_vm)
		return err_set(e, ERR_UNSUPPORTED,
			"the %s driver has only snapshots of all VMs together",
			sb->driver->ops->name);
	return find_vm(sb, n->vm_name, &n->vm, e);
}

/* Reads the arguments of an operation on a snapshot, and borrows the sandbox. */
static int borrow_named(struct request *rq, struct borrower *b, struct named *n, struct err *e)
{
	const char *id;

	*n = (struct named){0};
	if (json_get(rq->args, "args", e, "{s:s, s:s, s?s}", "sandbox", &id, "name", &n->name, "vm",
		    &n->vm_name) < 0)
		return -1;
	if (*n->name == '.')
		return err_set(e, ERR_INVALID, "a snapshot's name does not begin with a dot");
	if (borrow(rq, id, b, e) < 0)
		return -1;
	if (find_named_vm(b->sb, n, e) == 0)
		return 0;
	registry_return(rq->daemon->registry, b);
	return -1;
}

static int give_back(struct request *rq, struct borrower *b, int rc, struct err *e)
{
	if (rc < 0)
		registry_explain(rq->daemon->registry, b, e);
	registry_return(rq->daemon->registry, b);
	return rc;
}

int handle_snapshot(struct request *rq, json_t **ret, struct err *e)
{
	const struct driver_ops *ops;
	struct borrower b;
	struct named n;
	int rc;

	(void)ret;
	if (borrow_named(rq, &b, &n, e) < 0)
		return -1;
	ops = b.sb->driver->ops;
	request_touch(rq, b.sb, TOUCH_SAVED);
	rc = n.vm_name ? ops->snapshot_vm(b.driven, &rq->op, n.vm, n.name, e)
		       : ops->snapshot(b.driven, &rq->op, n.name, e);
	return give_back(rq, &b, rc, e);
}

int handle_restore(struct request *rq, json_t **ret, struct err *e)
{
	const struct driver_ops *ops;
	struct borrower b;
	struct named n;
	int rc;

	(void)ret;
	if (borrow_named(rq, &b, &n, e) < 0)
		return -1;
	ops = b.sb->driver->ops;
	request_touch(rq, b.sb, TOUCH_RESTORED);
	rc = registry_seize(rq->daemon->registry, &b, e);
	if (rc == 0)
		rc = n.vm_name ? ops->restore_vm(b.driven, &rq->op, n.vm, n.name, e)
			       : ops->restore(b.driven, &rq->op, n.name, e);
	screens_forget_pointers(&b.sb->screens);
	return give_back(rq, &b, rc, e);
}

int handle_snapshots(struct request *rq, json_t **ret, struct err *e)
{
	auto_json json_t *list = NULL;
	const char *id;
	struct borrower b;
	int rc;

	if (json_get(rq->args, "args", e, "{s:s}", "sandbox", &id) < 0 || borrow(rq, id, &b, e) < 0)
		return -1;
	rc = b.sb->driver->ops->snapshots
		     ? b.sb->driver->ops->snapshots(b.driven, &rq->op, &list, e)
		     : err_set(e, ERR_UNSUPPORTED, "the %s driver does not list snapshots",
			       b.sb->driver->ops->name);
	if (rc == 0)
		rc = json_make(ret, e, "{s:O}", "snapshots", list);
	return give_back(rq, &b, rc, e);
}

int handle_snapshot_rm(struct request *rq, json_t **ret, struct err *e)
{
	struct borrower b;
	struct named n;
	int rc;

	(void)ret;
	if (borrow_named(rq, &b, &n, e) < 0)
		return -1;
	rc = b.sb->driver->ops->snapshot_rm
		     ? b.sb->driver->ops->snapshot_rm(b.driven, &rq->op, n.name, e)
		     : err_set(e, ERR_UNSUPPORTED, "the %s driver does not remove snapshots",
			       b.sb->driver->ops->name);
	return give_back(rq, &b, rc, e);
}

/* ---- fork ---- */

struct fork_request {
	struct borrower *source;
	const char *snapshot;
	json_t *labels;
	bool detach, wait;
};

/* Copies the spec: each sandbox owns one. */
static int copy_spec(const struct sandbox_spec *spec, struct sandbox_spec **ret, struct err *e)
{
	auto_json json_t *j = NULL;

	return spec_to_json(spec, &j, e) < 0 ? -1 : spec_parse(j, ret, e);
}

static int fork_one(struct request *rq, const struct fork_request *f, json_t **ret, struct err *e)
{
	struct sandbox *source = f->source->sb;
	struct sandbox_origin from = {.driven = f->source->driven, .snapshot = f->snapshot};
	struct sandbox_new req = {.driver = source->driver,
		.lease = rq->session->lease,
		.owner_pid = rq->session->peer_pid,
		.maker = &rq->op,
		.touches = &source->touches,
		.ram_mb = source->ram_mb};
	auto_spec struct sandbox_spec *spec = NULL;

	if (copy_spec(source->spec, &spec, e) < 0 ||
		admission_enter(rq->daemon->admission, &rq->op, req.ram_mb,
			f->wait ? ADMISSION_WAIT : ADMISSION_TRY, e) < 0)
		return -1;
	req.spec = take_ptr(&spec);
	req.labels = json_incref(f->labels ? f->labels : source->labels);
	req.name = source->name[0] ? source->name : NULL;
	req.copy = true;
	return sandbox_make(rq->daemon, &req, &from, f->detach, ret, e);
}

static bool is_one_of(const struct sandbox *sb, void *arg)
{
	json_t *one;
	size_t i;

	json_array_foreach((json_t *)arg, i, one)
		if (strcmp(json_string_value(json_object_get(one, "sandbox")), sb->id) == 0)
			return true;
	return false;
}

/* Makes all copies, or none. */
static int fork_all(
	struct request *rq, const struct fork_request *f, unsigned n, json_t *made, struct err *e)
{
	struct err undo;

	for (unsigned i = 0; i < n; i++) {
		json_t *one;

		op_progress(&rq->op, i, n, "copying %s", f->source->sb->id);
		if (fork_one(rq, f, &one, e) == 0) {
			json_array_append_new(made, one);
			continue;
		}
		if (removal_run(rq->daemon, NULL, is_one_of, made, &undo) < 0)
			log_err(&rq->op, LOG_ERROR, &undo, "not all copies could be removed");
		return -1;
	}
	return 0;
}

static int run_fork(
	struct request *rq, struct fork_request *f, unsigned n, json_t *made, struct err *e)
{
	const struct driver_ops *ops = f->source->sb->driver->ops;
	struct op cleanup = op_for_cleanup(30);
	char name[40];
	struct err undo;
	int rc;

	if (!ops->create_from)
		return err_set(e, ERR_UNSUPPORTED, "the %s driver cannot fork", ops->name);
	snprintf(name, sizeof(name), ".fork-%llu-%lld", (unsigned long long)rq->session->lease,
		(long long)rq->id);
	f->snapshot = name;
	if (ops->snapshot(f->source->driven, &rq->op, name, e) < 0)
		return -1;
	rc = fork_all(rq, f, n, made, e);
	if (ops->snapshot_rm(f->source->driven, &cleanup, name, &undo) < 0)
		log_err(&rq->op, LOG_WARN, &undo, "the copies' snapshot stays");
	return rc;
}

int handle_fork(struct request *rq, json_t **ret, struct err *e)
{
	auto_json json_t *made = json_array();
	const char *id;
	struct borrower b;
	struct fork_request f = {.source = &b};
	json_int_t n = 1;
	int detach = 0, wait = 1, rc;

	if (json_get(rq->args, "args", e, "{s:s, s?I, s?o, s?b, s?b}", "sandbox", &id, "n", &n,
		    "labels", &f.labels, "detach", &detach, "wait", &wait) < 0)
		return -1;
	if (n < 1 || n > FORKS_MAX)
		return err_set(e, ERR_INVALID, "n: not between 1 and %d", FORKS_MAX);
	if ((f.labels && check_labels(f.labels, e) < 0) || borrow(rq, id, &b, e) < 0)
		return -1;
	f.detach = detach;
	f.wait = wait;
	request_touch(rq, b.sb, TOUCH_FORKED);
	rc = run_fork(rq, &f, (unsigned)n, made, e);
	if (rc == 0)
		rc = json_make(ret, e, "{s:O}", "sandboxes", made);
	return give_back(rq, &b, rc, e);
}
