#include "cli/cli.h"
#include "proto/proto.h"

static int cmd_version_run(struct cli *cli, struct err *e)
{
	auto_json json_t *j = NULL;

	if (!cli->json) {
		printf("moat %s (protocol %d)\n", MOAT_VERSION, PROTO_VERSION);
		return EXIT_OK;
	}
	if (json_make(&j, e, "{s:s, s:i}", "version", MOAT_VERSION, "protocol", PROTO_VERSION) < 0)
		return -1;
	return print_json(&cli->screen, j, e);
}

const struct cmd cmd_version = {
	.name = "version",
	.group = "About moat:",
	.synopsis = "",
	.summary = "print moat's version and the protocol it speaks",
	.about = "This is the version of the program itself; `moat info` asks the running daemon.",
	.flags = CMD_JSON | CMD_NO_QUIET | CMD_NO_PATHS,
	.run = cmd_version_run,
};
