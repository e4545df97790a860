/* moat-web.c - the program moat-web: what `moat web` becomes. See web/server.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/terminal/signals.h"
#include "util/auto.h"
#include "util/str.h"
#include "util/system/io.h"
#include "util/system/paths.h"
#include "util/system/proc.h"
#include "web/server.h"

#define START_SECONDS 10

enum { ARGUMENTS = 5 };

/*
 * Shows the page in the user's browser. Arguments of programs can be seen by every user of the
 * host, so the browser gets a file of ours with the address in it. What starts the browser may also
 * become it, so nobody waits for its end, and it outlives us.
 */
static int open_browser(
	const struct paths *paths, const char *address, struct proc *ret, struct err *e)
{
	auto_free char *path = NULL, *text = NULL;
	const char *argv[] = {"xdg-open", NULL, NULL};
	struct proc_req req = {.argv = argv};

	if (str_printf(&path, e, "%s/web.html", paths->state) < 0 ||
		str_printf(&text, e,
			"<!doctype html><meta charset=utf-8><title>moat</title>"
			"<meta http-equiv=refresh content=\"0;url=%s\">\n",
			address) < 0 ||
		file_write_atomic(path, text, strlen(text), 0600, e) < 0)
		return -1;
	argv[1] = path;
	return proc_start(&req, ret, e);
}

/* If there is no browser, the address is there all the same. */
static struct proc tell(const struct paths *paths, const char *address, bool open)
{
	struct proc browser = PROC_NONE;
	struct err e;

	puts(address);
	fflush(stdout);
	if (open && open_browser(paths, address, &browser, &e) < 0)
		fprintf(stderr, "moat: no browser could be started: %s\n", e.msg);
	return browser;
}

/* Says so if what was to start the browser has failed. */
static void see_browser(struct proc *browser)
{
	struct op op = {.deadline_ns = OP_NO_DEADLINE, .cancel_fd = -1};
	struct op soon = op_within(&op, START_SECONDS);
	struct err ignored;
	int code;

	if (browser->pid > 0 && proc_wait(&soon, browser, &code, &ignored) == 0 && code)
		fprintf(stderr,
			"moat: no browser could be started: xdg-open has failed with code %d\n",
			code);
}

static int serve(struct server_options *options, int address_fd, bool open, struct err *e)
{
	struct proc browser = PROC_NONE;
	char address[ADDRESS_MAX];
	struct server *s;
	int rc;

	options->child = &browser;
	options->child_ended = see_browser;
	if (server_new(options, &s, e) < 0)
		return -1;
	server_address(s, address);
	rc = address_note(address_fd, address, e);
	if (rc == 0) {
		browser = tell(options->paths, address, open);
		rc = server_run(s, e);
	}
	server_free(s);
	return rc;
}

/* PORT IDLE-SECONDS, and for each of read-only, open, look only: 0 or 1. */
static int run(char **argv, struct err *e)
{
	auto_paths struct paths paths = {0};
	struct op op = {.deadline_ns = OP_NO_DEADLINE, .cancel_fd = -1}, soon;
	struct server_options options = {.paths = &paths,
		.port = (unsigned)strtoul(argv[0], NULL, 10),
		.idle_seconds = strtod(argv[1], NULL),
		.read_only = *argv[2] == '1'};
	bool open = *argv[3] == '1', look_only = *argv[4] == '1';
	char address[ADDRESS_MAX];
	int fd = -1, rc;

	if (paths_load(&paths, e) < 0 || (!look_only && paths_make(&paths, e) < 0))
		return -1;
	soon = op_within(&op, START_SECONDS);
	rc = address_take(&soon, &paths, look_only, &fd, address, e);
	if (rc == 0) {
		struct proc browser = tell(&paths, address, open);

		see_browser(&browser);
	}
	if (rc > 0 && look_only)
		rc = err_set(e, ERR_UNAVAILABLE, "no console runs; `moat web` starts one");
	if (rc > 0 && signals_setup(e) < 0)
		rc = -1;
	if (rc > 0) {
		options.stop_fd = signals_fd();
		rc = serve(&options, fd, open, e);
	}
	if (fd >= 0)
		address_leave(fd);
	return rc;
}

int main(int argc, char **argv)
{
	struct err e;

	if (argc != 1 + ARGUMENTS) {
		fprintf(stderr, "moat-web is internal to moat\n");
		return 2;
	}
	umask(077);
	if (run(argv + 1, &e) == 0)
		return 0;
	fprintf(stderr, "moat: %s\n", e.msg);
	return e.kind == ERR_UNAVAILABLE ? 4 : 1;
}
