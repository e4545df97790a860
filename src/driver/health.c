#include "driver/health.h"

#include <stdlib.h>
#include <string.h>

#include "util/auto.h"

void health_begin(
	struct health *h, const char *vm, const struct healthcheck_spec *check, const char *user)
{
	*h = (struct health){.vm = vm,
		.check = check,
		.user = user,
		.grace_until = now_ns() + (int64_t)(check->start_period * 1e9)};
}

int health_ask(struct health *h, struct guest *g, const struct op *op, struct err *e)
{
	const struct healthcheck_spec *hc = h->check;
	auto_free const char **argv = calloc(hc->n_test + 1, sizeof(char *));
	struct guest_exec req = {.argv = argv,
		.env = h->env,
		.user = h->user,
		.cwd = h->cwd,
		.timeout = hc->timeout,
		.capture_max = 4096};
	struct guest_io io = {0};
	struct guest_exit end = {0};

	if (!argv)
		return err_oom(e);
	memcpy(argv, hc->test, hc->n_test * sizeof(char *));
	if (guest_exec(g, op, &req, &io, &end, e) < 0)
		return err_wrap(e, "healthcheck of VM %s", h->vm);
	if (end.stage == GUEST_RAN && end.code == 0 && !end.timed_out)
		return 1;
	if (now_ns() >= h->grace_until && ++h->failures >= hc->retries)
		return err_set(e, ERR_BACKEND,
			"the healthcheck of VM %s failed %u times; last exit code %d %s", h->vm,
			h->failures, end.code, end.message);
	return op_pause(op, hc->interval, e);
}
