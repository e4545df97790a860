/* main.c - one binary: the daemon, the command line, and moat-helper where that is missing. */
#include <string.h>

#include "cli/cmd.h"
#include "daemon/daemon.h"
#include "net/holder.h"
#include "util/guard.h"

/* The command line knows the daemon by its protocol only; this is where the two meet. */
static int serve(int ready_fd, bool leave_when_idle, struct err *e)
{
	struct daemon_options opts = {.ready_fd = ready_fd, .leave_when_idle = leave_when_idle};

	return daemon_main(&opts, e);
}

int main(int argc, char **argv)
{
	/* First of all: the guard must be small and must not depend on the environment. */
	if (argc > 1 && strcmp(argv[1], "guard") == 0)
		return guard_main(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "net-holder") == 0)
		return holder_main(argc - 1, argv + 1);
	return cli_main(argc, argv, serve);
}
