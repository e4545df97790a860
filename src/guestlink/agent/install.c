#include "guest/install.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "guest/wire.h"
#include "util/auto.h"
#include "util/io.h"
#include "util/str.h"

#define PATH_DEFAULT "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
/* Where programs may usually be run from; /tmp is often mounted noexec. */
#define PLACES "/var/lib/moat /usr/local/lib/moat /tmp /dev/shm /root"

enum {
	RUNNER_SIZE_MAX = 8 * 1024 * 1024,
	OUTPUT_MAX = 64 * 1024,
	NOWHERE = 91, /* exit codes of the scripts */
	PUSH = 92,
	NOT_RUNNABLE = 93,
};

/*
 * $1: the version line wanted, $2: the port. Starts the runner if it is there; otherwise leaves a
 * file that it has proved to be executable, prints its name and ends with PUSH. Some of the places
 * are open to all: only a file of our own user is trusted (-O), and made new (-C).
 */
static const char find_script[] =
	"for d in " PLACES "; do f=$d/moat-guest\n"
	"  [ -x \"$f\" ] && [ -O \"$f\" ] && [ ! -L \"$f\" ] || continue\n"
	"  [ \"$(\"$f\" version 2>/dev/null)\" = \"$1\" ] || continue\n"
	"  exec \"$f\" serve \"$2\" --daemon\n"
	"done\n"
	"set -C\n"
	"for d in " PLACES "; do f=$d/moat-guest.$$\n"
	"  mkdir -p \"$d\" 2>/dev/null && rm -f \"$f\" 2>/dev/null || continue\n"
	"  [ ! -d \"$d/moat-guest\" ] || continue\n"
	"  { printf '#!/bin/sh\\nexit 0\\n' >\"$f\"; } 2>/dev/null || continue\n"
	"  if chmod 755 \"$f\" && \"$f\"; then printf %s \"$f\"; exit 92; fi 2>/dev/null\n"
	"  rm -f \"$f\"\n"
	"done\n"
	"exit 91\n";

/* $1, $2 as above; $3: the file, which has the runner's content now. */
static const char run_script[] =
	"f=${3%.*}\n"
	"chmod 755 \"$3\" && mv -f \"$3\" \"$f\" || exit 93\n"
	"v=$(\"$f\" version) || { rm -f \"$f\"; exit 93; }\n"
	"[ \"$v\" = \"$1\" ] || { echo \"it says it is $v\" >&2; rm -f \"$f\"; exit 93; }\n"
	"exec \"$f\" serve \"$2\" --daemon\n";

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
	if (e->kind == ERR_BACKEND) /* the agent works, but there is no shell for it */
		e->kind = ERR_UNSUPPORTED;
	return -1;
}

/* Whether the runner serves now; *x is the end of the script that should have started it. */
static int check_started(const struct qga_exit *x, struct err *e)
{
	char words[300];

	if (x->code == 0)
		return 0;
	qga_exit_words(x, words, sizeof(words));
	if (x->code == NOWHERE)
		return err_set(e, ERR_UNSUPPORTED,
			"no directory of the guest allows to run programs from it");
	if (x->code == NOT_RUNNABLE)
		return err_set(e, ERR_UNSUPPORTED, "the guest cannot run moat-guest: %s", words);
	if (strstr(words, "another moat-guest"))
		return 0; /* it survived the end of an earlier line */
	return err_set(e, ERR_UNSUPPORTED, "moat-guest does not start in the guest: %s", words);
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
	if (run(q, op, run_script, file, &x, e) < 0)
		return -1;
	return check_started(&x, e);
}

int runner_start(const struct op *op, struct qga *q, const char *runner_path, struct err *e)
{
	auto_qga_exit struct qga_exit x = {0};
	auto_free char *file = NULL;

	if (run(q, op, find_script, NULL, &x, e) < 0)
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
