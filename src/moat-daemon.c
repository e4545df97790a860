/* serve.c - moat-daemon: what `moat serve` becomes. */
#include "cli/cmd.h"
#include "daemon/daemon.h"

/* The command line knows the daemon by its protocol only; this is where the two meet. */
static int serve(int ready_fd, bool leave_when_idle, struct err *e)
{
	struct daemon_options opts = {.ready_fd = ready_fd, .leave_when_idle = leave_when_idle};

	return daemon_main(&opts, e);
}

int main(int argc, char **argv)
{
	return cli_main(argc, argv, serve);
}
