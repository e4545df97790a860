#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/client/start.h"
#include "cli/terminal/signals.h"
#include "util/auto.h"
#include "util/str.h"
#include "util/system/io.h"
#include "util/system/rendezvous.h"

#define END_WAIT   60.0 /* long: a daemon removes its sandboxes before it exits */
#define LOOK_AGAIN 0.05

static int run_background(struct cli *cli, struct err *e)
{
	struct op op = {.cancel_fd = -1, .deadline_ns = OP_NO_DEADLINE};

	return daemon_start(&op, &cli->paths, args_has(cli->args, "any-config"), e);
}

/* If the daemon fails to start, writes the reason to the ready pipe. */
static int run_foreground(struct cli *cli, struct err *e)
{
	uint64_t ready_fd = 0;
	bool waited_for = args_has(cli->args, "ready-fd");
	struct serve_options options = {.ready_fd = -1,
		.leave_when_idle = waited_for,
		.any_config = args_has(cli->args, "any-config")};
	struct err ignored;

	if (waited_for && args_number(cli->args, "ready-fd", 1023, &ready_fd, e) < 0)
		return -1;
	if (waited_for)
		options.ready_fd = (int)ready_fd;
	if (cli->serve(&options, e) == 0)
		return EXIT_OK;
	if (waited_for)
		write_out(
			(int)ready_fd, (struct bytes){(uint8_t *)e->msg, strlen(e->msg)}, &ignored);
	return -1;
}

/* Connects to the daemon. Waits for one that holds the state directory but does not serve: it
 * starts, or ends, or has lost its socket and will notice. Returns 0 if there is no daemon. */
static int find_running(struct cli *cli, const struct op *op, struct err *e)
{
	struct op part = op_within(op, END_WAIT);
	struct rendezvous_note note;
	struct err why;

	while (cli_connect(cli, CLIENT_ANY_PROTOCOL | CLIENT_URGENT, e) < 0) {
		if (e->kind != ERR_UNAVAILABLE)
			return -1;
		if (!rendezvous_held(&cli->paths, &note))
			return 0;
		if (note.pid && !note.here)
			return err_set(e, ERR_UNAVAILABLE,
				"the daemon that uses %s runs on the host %s (pid %ld)",
				cli->paths.state, note.host, note.pid);
		part.cancel_fd = signals_fd(); /* cli_connect has set it up */
		if (op_pause(&part, LOOK_AGAIN, &why) == 0)
			continue;
		if (why.kind == ERR_TIMEOUT)
			return err_set(e, ERR_UNAVAILABLE,
				"a daemon (pid %ld) uses %s but cannot be reached", note.pid,
				cli->paths.state);
		*e = why;
		return -1;
	}
	return 1;
}

/* The file with logins is there as long as something of ours is on a server. */
static int tell_what_is_left(struct cli *cli, struct err *e)
{
	auto_free char *logins = NULL;

	if (str_printf(&logins, e, "%s/proxmox-logins.json", cli->paths.state) < 0)
		return -1;
	if (path_exists(logins))
		cli_note(cli, "what is still on servers that were away is in the journal; the next "
			      "daemon removes it");
	return EXIT_OK;
}

static int stop(struct cli *cli, struct err *e)
{
	struct op op = {.cancel_fd = -1, .deadline_ns = OP_NO_DEADLINE}, part;
	bool force = args_has(cli->args, "force");
	auto_fd int pidfd = -1;
	long pid;
	int found = find_running(cli, &op, e);

	if (found < 0)
		return -1;
	if (!found) {
		cli_note(cli, "no daemon is running");
		return EXIT_OK;
	}
	pid = client_daemon_pid(cli->client);
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0)
		return err_sys(e, errno, "the daemon (pid %ld)", pid);
	if (cli_request(cli, "shutdown", json_pack("{s:b}", "force", force), NULL, e) < 0)
		return -1;
	part = op_within(&op, END_WAIT);
	if (op_wait_fd(&part, pidfd, POLLIN, e) < 0)
		return err_wrap(e, "the daemon (pid %ld) agreed to end but has not", pid);
	cli_note(cli, "the daemon (pid %ld) has ended", pid);
	return tell_what_is_left(cli, e);
}

static int cmd_serve_run(struct cli *cli, struct err *e)
{
	const struct args *a = cli->args;
	bool background = args_has(a, "background"), stopping = args_has(a, "stop");

	if (args_has(a, "foreground") + background + stopping > 1)
		return args_fail(e, "--foreground, --background and --stop exclude each other");
	if (args_has(a, "force") && !stopping)
		return args_fail(e, "--force belongs to --stop");
	if (stopping)
		return stop(cli, e);
	return background ? run_background(cli, e) : run_foreground(cli, e);
}

static const struct opt serve_opts[] = {
	{'f', "foreground", NULL, "run here and log to stderr (default)"},
	{'b', "background", NULL, "return when the daemon answers; fine if it runs already"},
	{0, "stop", NULL, "end the daemon"},
	{0, "force", NULL, "with --stop: also when there are sandboxes, which are removed"},
	{0, "ready-fd", "FD", NULL},
	{0, "any-config", NULL, NULL},
	{0},
};

const struct cmd cmd_serve = {
	.name = "serve",
	.group = "This host:",
	.synopsis = "",
	.summary = "run the daemon, or stop it",
	.about = "Seldom needed: every other verb starts a daemon where there is none, and such a\n"
		 "daemon ends when it is not needed any more.",
	.examples = "  moat serve\n"
		    "  moat serve --stop",
	.opts = serve_opts,
	.run = cmd_serve_run,
};
