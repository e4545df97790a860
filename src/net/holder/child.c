#include "net/holder/child.h"

#include <errno.h>
#include <string.h>

#include "net/holder/netns.h"
#include "util/auto.h"

#define ENDS_MAX    5
#define LONG_RUN_S  60
#define RUN_OUT_MAX (4u << 20)

static int start(void *arg, struct err *e)
{
	struct child *c = arg;
	struct proc_req req = {.argv = (const char *const *)c->argv.v,
		.program = c->is_own ? "/proc/self/exe" : NULL,
		.in_fd = c->in_fd,
		.out_fd = c->log_fd,
		.err_fd = c->log_fd,
		.fds = c->fds,
		.n_fds = c->n_fds};

	if (proc_start(&req, &c->proc, e) == 0)
		return 0;
	/* Root's holder is another user by now. */
	if (c->is_own && e->sys == EACCES)
		err_set(e, ERR_UNSUPPORTED,
			"the file moat-helper is not for everybody to run; to fix it: chmod a+rx");
	return -1;
}

int child_start(struct child *c, struct err *e)
{
	c->since = now_ns();
	return c->netns < 0 ? start(c, e) : netns_run(c->netns, start, c, NULL, e);
}

int child_restart(struct child *c, const char *last_output, struct err *e)
{
	struct op now = op_for_cleanup(5);
	int code = 0;

	if (proc_wait(&now, &c->proc, &code, e) < 0)
		return -1;
	if (now_ns() - c->since > (int64_t)LONG_RUN_S * 1000000000)
		c->ends = 0;
	if (++c->ends >= ENDS_MAX)
		return err_set(e, ERR_BACKEND, "%s ended %u times, last with code %d%s%s", c->what,
			c->ends, code, *last_output ? ": " : "", last_output);
	return child_start(c, e);
}

void child_free(struct child *c)
{
	proc_kill(&c->proc);
	strv_free(&c->argv);
}

struct run {
	const struct op *op;
	const struct proc_req *req;
	struct proc_result res;
};

static int run(void *arg, struct err *e)
{
	struct run *r = arg;

	return proc_run(r->op, r->req, &r->res, e);
}

/* Takes the first line of stderr: further lines only follow from it. */
static int fail_with(const char *program, struct proc_result *res, struct err *e)
{
	auto_free char *text = buf_take_str(&res->err);

	if (!text)
		return err_oom(e);
	text[strcspn(text, "\n")] = 0;
	return err_set(e, ERR_BACKEND, "%s: %s", program, *text ? text : "failed without a word");
}

int child_run(const struct op *op, int netns, const char *const *argv, struct bytes input,
	struct buf *ret_out, struct err *e)
{
	struct proc_req req = {.argv = argv, .input = input, .out_max = RUN_OUT_MAX};
	struct run r = {.op = op, .req = &req};
	int rc = netns < 0 ? run(&r, e) : netns_run(netns, run, &r, NULL, e);

	if (rc == 0 && r.res.exit_code != 0)
		rc = fail_with(argv[0], &r.res, e);
	if (rc == 0 && ret_out) {
		buf_free(ret_out);
		*ret_out = r.res.out;
		r.res.out = (struct buf){0};
	}
	proc_result_free(&r.res);
	return rc;
}
