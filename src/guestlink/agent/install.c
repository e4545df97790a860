#include "guestlink/agent/install.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "guestlink/agent/script.h"
#include "wire/wire.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/str.h"

#define PATH_DEFAULT "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

enum {
	RUNNER_SIZE_MAX = 8 * 1024 * 1024,
	OUTPUT_MAX = 64 * 1024,
	NOWHERE = 91, /* exit codes of find-runner.sh and start-runner.sh */
	PUSH = 92,
	NOT_RUNNABLE = 93,
};

static int run(struct qga *q, const struct op *op, const char *script, const char *file,
	struct qga_exit *ret, struct err *e)
{
	const char *const argv[] = {"/bin/sh", "-c", script, "sh",
		"moat-guest " MOAT_VERSION " wire 2", WIRE_PORT_NAME, file, NULL};
	const char *const env[] = {PATH_DEFAULT, "LC_ALL=C", NULL};
	struct qga_exec req = {.argv = argv, .env = env, .output_max = OUTPUT_MAX};

	static_assert(WIRE_VERSION == 2, "the version line above");
	if (qga_exec(q, op, &req, ret, e) == 0)
		return 0;
	if (e->kind == ERR_BACKEND) /* the agent works, but the guest has no shell */
		e->kind = ERR_UNSUPPORTED;
	return -1;
}

/* Whether the runner serves now. *x: the end of the script that should have started it. */
static int check_started(const struct qga_exit *x, struct err *e)
{
	char said[300];

	if (x->code == 0)
		return 0;
	qga_exit_message(x, said, sizeof(said));
	if (x->code == NOWHERE)
		return err_set(e, ERR_UNSUPPORTED,
			"no directory of the guest allows to run programs from it");
	if (x->code == NOT_RUNNABLE)
		return err_set(e, ERR_UNSUPPORTED, "the guest cannot run moat-guest: %s", said);
	if (strstr(said, WIRE_ANOTHER_RUNNER))
		return 0; /* a runner still serves, from an earlier line */
	return err_set(e, ERR_UNSUPPORTED, "moat-guest does not start in the guest: %s", said);
}

static int push(struct qga *q, const struct op *op, const char *runner_path, const char *file,
	struct err *e)
{
	auto_qga_exit struct qga_exit x = {0};
	auto_free char *content = NULL;
	size_t size = 0;

	if (file_read(runner_path, RUNNER_SIZE_MAX, &content, &size, e) < 0)
		return -1;
	op_progress(op, 0, 0, "installing the runner in the guest");
	if (qga_file_write(q, op, file, (struct bytes){(uint8_t *)content, size}, e) < 0) {
		if (e->kind == ERR_BACKEND)
			e->kind = ERR_UNSUPPORTED;
		return -1;
	}
	if (run(q, op, agent_script_start_runner, file, &x, e) < 0)
		return -1;
	return check_started(&x, e);
}

int runner_start(const struct op *op, struct qga *q, const char *runner_path, struct err *e)
{
	auto_qga_exit struct qga_exit x = {0};
	auto_free char *file = NULL;

	if (run(q, op, agent_script_find_runner, NULL, &x, e) < 0)
		return err_wrap(e, "the runner");
	if (x.code != PUSH)
		return check_started(&x, e);
	file = buf_take_str(&x.out);
	if (!file)
		return err_oom(e);
	if (!str_starts(file, "/") || strchr(file, '\n'))
		return err_set(e, ERR_UNAVAILABLE, "the guest named no file for the runner");
	if (push(q, op, runner_path, file, e) < 0)
		return err_wrap(e, "the runner");
	return 0;
}
