#include "guestlink/agent/run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "guestlink/agent/script-output.h"
#include "guestlink/agent/script.h"
#include "util/auto.h"
#include "util/str.h"
#include "util/strv.h"

#define PATH_DEFAULT "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

enum {
	TAG_BYTES = 8,
	END_S = 20, /* from the death of a command to the end of its script */
	KILL_S = 10,
};

void agent_result_free(struct agent_result *r)
{
	buf_free(&r->out);
	buf_free(&r->err);
}

static int start(struct qga *q, const struct op *op, const struct agent_run *run, const char *tag,
	int64_t *ret_pid, struct err *e)
{
	const char *const env[] = {PATH_DEFAULT, "LC_ALL=C", NULL};
	auto_strv struct strv argv = {0};
	struct qga_exec req = {.env = env, .input = run->input};

	strv_add_all(&argv, "/bin/sh", "-c", agent_script_run, "sh", tag,
		run->user ? run->user : "", run->cwd ? run->cwd : "", NULL);
	strv_addf(&argv, "%zu", run->tail_max);
	strv_add_all(&argv, PATH_DEFAULT, "LANG=C.UTF-8", NULL);
	for (const char *const *var = run->env; var && *var; var++)
		strv_add(&argv, *var);
	strv_addf(&argv, "MOAT_EXEC=%s", tag);
	strv_add_all(&argv, "/bin/sh", "-c", agent_script_last, "sh", tag, NULL);
	for (const char *const *arg = run->argv; *arg; arg++)
		strv_add(&argv, *arg);
	if (strv_check(&argv, e) < 0)
		return -1;
	req.argv = (const char *const *)argv.v;
	return qga_exec_start(q, op, &req, ret_pid, e);
}

static int kill_tree(struct qga *q, const char *tag, int64_t pid, struct err *e)
{
	struct op op = op_for_cleanup(KILL_S);
	const char *const env[] = {PATH_DEFAULT, "LC_ALL=C", NULL};
	char number[24];
	const char *const argv[] = {"/bin/sh", "-c", agent_script_kill, "sh", tag, number, NULL};
	struct qga_exec req = {.argv = argv, .env = env, .output_max = 4096};
	auto_qga_exit struct qga_exit x = {0};

	snprintf(number, sizeof(number), "%lld", (long long)pid);
	return qga_exec(q, &op, &req, &x, e);
}

/* Waits for the end of the script. *ret_timed_out: the command's own timeout has ended it. */
static int wait_end(struct qga *q, const struct op *op, const struct agent_run *run,
	const char *tag, int64_t pid, struct qga_exit *ret, bool *ret_timed_out, struct err *e)
{
	struct op part = op_within(op, run->timeout);
	size_t max = run->tail_max + 1024;
	struct err cause, late;

	if (qga_exec_wait(q, &part, pid, max, ret, e) == 0) {
		*ret_timed_out = false;
		return 0;
	}
	if (e->kind != ERR_TIMEOUT && e->kind != ERR_CANCELLED)
		return -1;
	cause = *e;
	/* The script itself is not killed: it reports the end and removes its files. */
	if (kill_tree(q, tag, pid, &late) == 0) {
		struct op rest = op_for_cleanup(END_S);

		if (qga_exec_wait(q, &rest, pid, max, ret, &late) == 0 && op_check(op, e) == 0) {
			*ret_timed_out = true;
			return 0;
		}
	}
	*e = op_check(op, &late) < 0 ? cause : late;
	return -1;
}

int agent_run(struct qga *q, const struct op *op, const struct agent_run *run,
	struct agent_result *ret, struct err *e)
{
	auto_qga_exit struct qga_exit x = {0};
	char tag[2 * TAG_BYTES + 1], words[300];
	struct guest_exit exit;
	bool timed_out;
	int64_t pid;

	if (str_random_hex(TAG_BYTES, tag, e) < 0)
		return -1;
	if (start(q, op, run, tag, &pid, e) < 0) {
		if (!qga_says_too_long(e))
			return -1;
		guest_not_run(&ret->exit, GUEST_NO_EXEC, E2BIG, "Argument list too long");
		return 0;
	}
	if (wait_end(q, op, run, tag, pid, &x, &timed_out, e) < 0)
		return -1;
	if (!agent_parse_end(&x.err, tag, &exit)) {
		str_escape((const char *)buf_data(&x.err), x.err.len, words, sizeof(words));
		return err_set(e, ERR_BACKEND, "the guest's shell failed (exit code %d): %s",
			x.code, words);
	}
	if (timed_out) {
		exit.timed_out = true;
		exit.code = 124;
	}
	*ret = (struct agent_result){.exit = exit, .out = x.out, .err = x.err};
	x = (struct qga_exit){0};
	return 0;
}
