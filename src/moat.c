/*
 * main.c - moat: the command line. The daemon is a program of its own (serve.c), as its libraries
 * take longer to load than most commands take to run.
 */
#include <errno.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "util/auto.h"
#include "util/paths.h"

static char **own_argv;

/* moat-daemon takes the same arguments. Returns only if it cannot be run. */
static int become_daemon(int ready_fd, bool leave_when_idle, struct err *e)
{
	auto_free char *path = NULL;

	(void)ready_fd;
	(void)leave_when_idle;
	if (paths_find_part("moat-daemon", &path, e) < 0)
		return -1;
	execv(path, own_argv);
	return err_sys(e, errno, "%s", path);
}

int main(int argc, char **argv)
{
	own_argv = argv;
	return cli_main(argc, argv, become_daemon);
}
