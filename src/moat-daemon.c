/* moat-daemon.c - the program moat-daemon, which `moat serve` executes. */
#include "cli/cmd.h"
#include "daemon/daemon.h"

/* src/cli does not include src/daemon: it gets this function to call. */
static int serve(const struct serve_options *options, struct err *e)
{
	struct daemon_options opts = {.ready_fd = options->ready_fd,
		.leave_when_idle = options->leave_when_idle,
		.any_config = options->any_config};

	return daemon_main(&opts, e);
}

int main(int argc, char **argv)
{
	return cli_main(argc, argv, serve);
}
