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
 * host, so the browser gets a file of ours with the address in it.
 */
static int open_browser(const struct paths *paths, const char *address, struct err *e)
{
	struct op op = {.deadline_ns = OP_NO_DEADLINE, .cancel_fd = -1};
	struct op soon = op_within(&op, START_SECONDS);
	auto_free char *path = NULL, *text = NULL;
	const char *argv[] = {"xdg-open", NULL, NULL};
	struct proc_req req = {.argv = argv, .out_max = 4096};

	if (str_printf(&path, e, "%s/web.html", paths->state) < 0 ||
		str_printf(&text, e,
			"<!doctype html><meta charset=utf-8><title>moat</title>"
			"<meta http-equiv=refresh content=\"0;url=%s\">\n",
			address) < 0 ||
		file_write_atomic(path, text, strlen(text), 0600, e) < 0)
		return -1;
	argv[1] = path;
	return proc_run_ok(&soon, &req, e);
}

static int tell(const struct paths *paths, const char *address, bool open, struct err *e)
{
	puts(address);
	fflush(stdout);
	if (!open || open_browser(paths, address, e) == 0)
		return 0;
	fprintf(stderr, "moat: no browser could be started: %s\n", e->msg);
	return 0; /* the address is there */
}

static int serve(const struct server_options *options, int address_fd, bool open, struct err *e)
{
	char address[ADDRESS_MAX];
	struct server *s;
	int rc;

	if (server_new(options, &s, e) < 0)
		return -1;
	server_address(s, address);
	rc = address_note(address_fd, address, e);
	if (rc == 0)
		rc = tell(options->paths, address, open, e);
	if (rc == 0)
		rc = server_run(s, e);
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
	if (rc == 0)
		return tell(&paths, address, open, e);
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
