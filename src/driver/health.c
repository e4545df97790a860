#include "driver/health.h"

#include <stdlib.h>
#include <string.h>

#include "util/auto.h"

void health_begin(struct health *h, const struct vm_spec *vm, const char *user)
{
	*h = (struct health){.vm = vm,
		.user = user,
		.grace_until = now_ns() + (int64_t)(vm->healthcheck->start_period * 1e9)};
}

int health_ask(struct health *h, struct guest *g, const struct op *op, struct err *e)
{
	const struct healthcheck_spec *hc = h->vm->healthcheck;
	auto_free const char **argv = calloc(hc->n_test + 1, sizeof(char *));
	struct guest_exec req = {
		.argv = argv, .user = h->user, .timeout = hc->timeout, .capture_max = 4096};
	struct guest_io io = {0};
	struct guest_exit end = {0};

	if (!argv)
		return err_oom(e);
	memcpy(argv, hc->test, hc->n_test * sizeof(char *));
	if (guest_exec(g, op, &req, &io, &end, e) < 0)
		return err_wrap(e, "healthcheck of VM %s", h->vm->name);
	if (end.stage == GUEST_RAN && end.code == 0 && !end.timed_out)
		return 1;
	if (now_ns() >= h->grace_until && ++h->failures >= hc->retries)
		return err_set(e, ERR_BACKEND,
			"the healthcheck of VM %s failed %u times; last exit code %d %s",
			h->vm->name, h->failures, end.code, end.message);
	return op_pause(op, hc->interval, e);
}
