#include "driver/health.h"

#include <stdlib.h>
#include <string.h>

#include "util/auto.h"

static int drop_output(void *arg, int stream, struct bytes data, struct err *e)
{
	(void)arg;
	(void)stream;
	(void)data;
	(void)e;
	return 0;
}

int health_wait(struct guest *g, const struct op *op, const struct vm_spec *vm, const char *user,
	struct err *e)
{
	const struct healthcheck_spec *hc = vm->healthcheck;
	auto_free const char **argv = calloc(hc->n_test + 1, sizeof(char *));
	int64_t grace_until = now_ns() + (int64_t)(hc->start_period * 1e9);
	unsigned failures = 0;

	if (!argv)
		return err_oom(e);
	memcpy(argv, hc->test, hc->n_test * sizeof(char *));
	for (;;) {
		struct guest_exec req = {
			.argv = argv, .user = user, .timeout = hc->timeout, .capture_max = 4096};
		struct guest_io io = {.output = drop_output};
		struct guest_exit end = {0};

		if (guest_exec(g, op, &req, &io, &end, e) < 0)
			return err_wrap(e, "healthcheck of VM %s", vm->name);
		if (end.stage == GUEST_RAN && end.code == 0 && !end.timed_out)
			return 0;
		if (now_ns() >= grace_until && ++failures >= hc->retries)
			return err_set(e, ERR_BACKEND,
				"the healthcheck of VM %s failed %u times; last exit code %d %s",
				vm->name, failures, end.code, end.message);
		if (op_pause(op, hc->interval, e) < 0)
			return -1;
	}
}
