#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"
#include "util/auto.h"
#include "util/system/paths.h"

enum { PORT_MAX = 65535 };

#define IDLE_SECONDS 3600.0

/* Becomes moat-web, which has a table of these arguments. Returns only if that fails. */
static int become_server(struct cli *cli, uint64_t port, double idle, struct err *e)
{
	const struct args *a = cli->args;
	auto_free char *path = NULL;
	char port_text[24], seconds[40];
	const char *argv[] = {"moat-web", port_text, seconds, args_has(a, "read-only") ? "1" : "0",
		args_has(a, "open") ? "1" : "0", args_has(a, "url") ? "1" : "0", NULL};

	snprintf(port_text, sizeof(port_text), "%llu", (unsigned long long)port);
	snprintf(seconds, sizeof(seconds), "%.3f", idle);
	if (paths_find_part("moat-web", &path, e) < 0)
		return -1;
	execv(path, (char *const *)argv);
	return err_sys(e, errno, "%s", path);
}

static int cmd_web_run(struct cli *cli, struct err *e)
{
	const struct args *a = cli->args;
	uint64_t port = 0;
	double idle = IDLE_SECONDS;

	if (args_number(a, "port", PORT_MAX, &port, e) < 0 || args_seconds(a, "idle", &idle, e) < 0)
		return -1;
	if (args_has(a, "url") &&
		(args_has(a, "port") || args_has(a, "idle") || args_has(a, "read-only")))
		return args_fail(e, "--url starts nothing: the other options belong to a console "
				    "that starts");
	/* There is something to see from the start. */
	if (!args_has(a, "url") && cli_connect(cli, CLIENT_START, e) < 0)
		return -1;
	return become_server(cli, port, idle, e);
}

static const struct opt web_opts[] = {
	{0, "open", NULL, "show it in a browser"},
	{0, "port", "PORT", "listen on this port of 127.0.0.1 (default: any that is free)"},
	{0, "read-only", NULL, "a page can change nothing"},
	{0, "idle", "SECONDS", "end when no page was open for so long (default: 3600)"},
	{0, "url", NULL, "print the address of the console that runs, and start none"},
	{0},
};

const struct cmd cmd_web = {
	.name = "web",
	.group = "Sandboxes:",
	.synopsis = "",
	.summary = "show the sandboxes in a browser: terminals, screens, networks, logs",
	.about = "Prints an address that only you should have: whoever has it can use your\n"
		 "sandboxes. If a console of yours runs already, prints the address of that one.\n"
		 "Ends with its terminal, with Ctrl-C, or when no page was open for an hour.\n"
		 "\n"
		 "On another host: moat web --port 8300 there, ssh -L 8300:127.0.0.1:8300 here.",
	.examples = "  moat web --open\n"
		    "  moat web --read-only --port 8300",
	.opts = web_opts,
	.flags = CMD_NO_QUIET,
	.run = cmd_web_run,
};
