/* moat-daemon.c - the program moat-daemon, which `moat serve` executes. */
#include "cli/cmd.h"
#include "daemon/daemon.h"

/* src/cli does not include src/daemon: it gets this function to call. */
static int serve(int ready_fd, bool leave_when_idle, struct err *e)
{
	struct daemon_options opts = {.ready_fd = ready_fd, .leave_when_idle = leave_when_idle};

	return daemon_main(&opts, e);
}

int main(int argc, char **argv)
{
	return cli_main(argc, argv, serve);
}
