#include "cli/cli.h"
#include "cli/settings.h"
#include "util/auto.h"

static int cmd_info_run(struct cli *cli, struct err *e)
{
	auto_json json_t *result = NULL;
	char up[24];

	if (cli_connect(cli, 0, e) < 0)
		return err_wrap(e, "%s", cli->paths.socket);
	if (cli_request(cli, "info", json_object(), &result, e) < 0)
		return -1;
	if (cli->json)
		return print_json(&cli->screen, result, e);
	text_age(get_num(result, "uptime"), up);
	printf("Daemon: moat %s, pid %.0f, up %s\n", get_str(result, "version"),
		get_num(result, "pid"), up);
	printf("  %-16s %.0f\n", "sandboxes", get_num(result, "sandboxes"));
	printf("  %-16s %.0f\n", "connections", get_num(result, "connections"));
	printf("  %-16s %.0f\n", "operations", get_num(result, "operations"));
	printf("  %-16s %s\n", "accelerator", get_str(result, "accelerator"));
	print_settings("Memory, in MB:", json_object_get(result, "memory"));
	print_settings("Directories:", json_object_get(result, "paths"));
	print_settings("Configuration:", json_object_get(result, "config"));
	return EXIT_OK;
}

const struct cmd cmd_info = {
	.name = "info",
	.group = "This host:",
	.synopsis = "",
	.summary = "show the running daemon, its memory, directories and configuration",
	.about = "Does not start a daemon; without one the exit code is 4.",
	.examples = "  moat info --json | jq .memory",
	.flags = CMD_JSON,
	.run = cmd_info_run,
};
