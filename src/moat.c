/* moat.c - the program moat: the command line. The daemon is another program (moat-daemon.c),
 * because its libraries take longer to load than most commands take to run. */
#include <errno.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "util/auto.h"
#include "util/system/paths.h"

static char **own_argv;

/* Executes moat-daemon with the arguments of this process. Returns only if that fails. */
static int become_daemon(const struct serve_options *options, struct err *e)
{
	auto_free char *path = NULL;

	(void)options;
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
