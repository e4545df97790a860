/*
 * The operation that keeps sandboxes of a spec ready. It lasts until its client ends it, so the
 * sandboxes go with the client, as any others. They are made one at a time, by a thread with an op
 * of its own: when memory is needed, the making is cancelled, and this operation goes on.
 */
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/removal.h"
#include "daemon/request.h"
#include "daemon/ops/args.h"
#include "daemon/ops/containers.h"
#include "daemon/sandbox-make.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/system/log.h"
#include "util/thread/thread.h"

enum { COUNT_MAX = 64, FAILURES_MAX = 3 };
#define IDLE_SECONDS  3600.0 /* unless the client says otherwise */
#define LOOK_SECONDS  2.0    /* between looks whether a VM is dead */
#define AGAIN_SECONDS 5.0    /* until the next is made, after one could not be made */

struct keeper {
	struct request *rq;
	struct standby standby;
	struct driver *driver;
	json_t *spec, *labels; /* the spec with all defaults */
	unsigned count, failures;
	int64_t idle_ns;       /* it ends when no sandbox was taken for so long */
	int64_t used_ns;       /* when one was taken last, or this operation began */
	int64_t not_before_ns; /* until then no sandbox is made */
	struct standby_figures said;

	/* the thread that makes one */
	bool runs;
	pthread_t thread;
	struct op op;
	int done_fd;        /* eventfd: rung when the thread has nothing left to do */
	struct err failure; /* belongs to the thread until it is joined */
	bool failed;
};

static int make_one(struct keeper *k, struct err *e)
{
	struct sandbox_new req = {.driver = k->driver,
		.lease = k->rq->session->lease,
		.owner_pid = k->rq->session->peer_pid,
		.maker = &k->op,
		.standby = &k->standby};
	auto_spec struct sandbox_spec *spec = NULL;

	if (spec_parse(k->spec, &spec, e) < 0)
		return -1;
	req.ram_mb = spec_total_ram(spec, k->driver);
	/* Clients that wait for memory come first. */
	if (admission_enter(k->rq->daemon->admission, &k->op, req.ram_mb, ADMISSION_SPARE, e) < 0)
		return -1;
	req.spec = take_ptr(&spec);
	req.labels = json_incref(k->labels);
	return sandbox_make(k->rq->daemon, &req, &(struct sandbox_origin){0}, false, NULL, e);
}

static void *maker_main(void *arg)
{
	struct keeper *k = arg;
	uint64_t one = 1;

	k->failed = make_one(k, &k->failure) < 0;
	if (write(k->done_fd, &one, sizeof(one)) < 0)
		log_msg(&k->op, LOG_ERROR, "eventfd");
	return NULL;
}

static int start_making(struct keeper *k, struct err *e)
{
	if (op_init(&k->op, k->rq->op.id, 0, e) < 0)
		return -1;
	if (thread_start(&k->thread, "standby-maker", maker_main, k, e) < 0) {
		op_done(&k->op);
		return -1;
	}
	k->runs = true;
	return 0;
}

static void end_making(struct keeper *k)
{
	uint64_t count;

	thread_join(k->thread);
	if (read(k->done_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		log_msg(&k->rq->op, LOG_ERROR, "eventfd");
	op_done(&k->op);
	k->runs = false;
}

/* Looks at what became of the making. Fails when there is no point in trying again. */
static int judge(struct keeper *k, struct err *e)
{
	if (!k->failed) {
		k->failures = 0;
		return 0;
	}
	k->not_before_ns = now_ns() + (int64_t)(AGAIN_SECONDS * 1e9);
	/* The spec is not at fault if there was no memory, or if a client removed the sandbox. */
	if (k->failure.kind == ERR_BUSY || k->failure.kind == ERR_UNAVAILABLE)
		return 0;
	log_err(&k->rq->op, LOG_WARN, &k->failure, "cannot make a sandbox for standby");
	if (++k->failures < FAILURES_MAX)
		return 0;
	*e = k->failure;
	return -1;
}

/* A failure to start the thread counts like one of the thread: other sandboxes may be ready. */
static int try_making(struct keeper *k, struct err *e)
{
	if (start_making(k, &k->failure) == 0)
		return 0;
	k->failed = true;
	return judge(k, e);
}

static bool is_mine(const struct sandbox *sb, void *arg)
{
	return sb->standby == &((struct keeper *)arg)->standby;
}

static bool is_mine_and_dead(const struct sandbox *sb, void *arg)
{
	return is_mine(sb, arg) && sb->state == SANDBOX_RUNNING && sandbox_is_dead_locked(sb);
}

static void remove_mine(struct keeper *k, sandbox_filter which)
{
	struct err e;

	if (removal_run(k->rq->daemon, NULL, which, k, &e) < 0)
		log_err(&k->rq->op, LOG_ERROR, &e, "cannot remove what was in standby");
}

static void tell(struct keeper *k, const struct standby_figures *now)
{
	if (now->taken != k->said.taken)
		k->used_ns = now_ns();
	if (now->taken != k->said.taken || now->ready != k->said.ready)
		op_progress(&k->rq->op, now->ready, k->count, "in standby");
	k->said = *now;
}

/* Waits until a sandbox was taken or made, or it is time to look. Fails when this operation ends.
 */
static int await_news(struct keeper *k, struct err *e)
{
	struct op look = op_within(&k->rq->op, LOOK_SECONDS);
	struct pollfd fds[] = {
		{.fd = k->standby.wake_fd, .events = POLLIN}, {.fd = k->done_fd, .events = POLLIN}};
	uint64_t count;

	if (op_wait_fds(&look, fds, ARRAY_LEN(fds), e) < 0)
		return e->kind == ERR_TIMEOUT ? op_check(&k->rq->op, e) : -1;
	if (fds[0].revents && read(k->standby.wake_fd, &count, sizeof(count)) < 0 &&
		errno != EAGAIN)
		return err_sys(e, errno, "eventfd");
	if (!fds[1].revents)
		return 0;
	end_making(k);
	return judge(k, e);
}

/* Keeps sandboxes ready; returns when none was taken for too long. */
static int keep(struct keeper *k, struct err *e)
{
	struct registry *r = k->rq->daemon->registry;

	k->used_ns = now_ns();
	for (;;) {
		struct standby_figures f = registry_standby(r, &k->standby);

		if (f.dead)
			remove_mine(k, is_mine_and_dead);
		tell(k, &f);
		if (now_ns() - k->used_ns > k->idle_ns)
			return 0;
		if (!k->runs && f.ready < k->count && now_ns() >= k->not_before_ns &&
			try_making(k, e) < 0)
			return -1;
		if (await_news(k, e) < 0)
			return -1;
	}
}

static void stop(struct keeper *k)
{
	if (k->runs) {
		op_cancel(&k->op);
		end_making(k);
	}
	remove_mine(k, is_mine);
}

static int run(struct keeper *k, json_t **ret, struct err *e)
{
	auto_free char *key = NULL;
	auto_fd int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	auto_fd int done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int rc;

	if (wake < 0 || done < 0)
		return err_sys(e, errno, "eventfd");
	if (json_to_str(k->spec, &key, e) < 0)
		return -1;
	k->standby = (struct standby){.key = key, .wake_fd = wake};
	k->done_fd = done;
	rc = keep(k, e);
	stop(k);
	return rc < 0 ? -1 : json_make(ret, e, "{s:i}", "taken", (int)k->said.taken);
}

int handle_standby(struct request *rq, json_t **ret, struct err *e)
{
	auto_spec struct sandbox_spec *spec = NULL;
	auto_json json_t *canonical = NULL, *none = json_object();
	struct keeper k = {.rq = rq, .labels = none};
	double idle = IDLE_SECONDS;
	json_int_t count = 1;
	json_t *j;

	if (json_get(rq->args, "args", e, "{s:o, s?I, s?o, s?F}", "spec", &j, "count", &count,
		    "labels", &k.labels, "idle", &idle) < 0)
		return -1;
	if (count < 1 || count > COUNT_MAX)
		return err_set(e, ERR_INVALID, "count: not between 1 and %d", COUNT_MAX);
	if (!(idle >= 1 && idle <= 1e6))
		return err_set(e, ERR_INVALID, "idle: not between 1 and 1000000 seconds");
	if (check_labels(k.labels, e) < 0 || read_spec(rq, j, &spec, &k.driver, e) < 0 ||
		get_containers(rq, k.driver, &spec, e) < 0 || spec_to_json(spec, &canonical, e) < 0)
		return -1;
	if (!k.driver->ops->refresh)
		return err_set(e, ERR_UNSUPPORTED, "the %s driver keeps nothing in standby",
			k.driver->ops->name);
	k.spec = canonical;
	k.count = (unsigned)count;
	k.idle_ns = (int64_t)(idle * 1e9);
	return run(&k, ret, e);
}
