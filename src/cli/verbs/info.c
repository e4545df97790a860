#include "cli/cli.h"
#include "cli/info.h"
#include "util/auto.h"

static void print_value(const char *name, const json_t *value)
{
	auto_free char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY);
	auto_free char *safe = text_safe(text ? text : json_string_value(value));

	printf("  %-16s %s\n", name, safe ? safe : "");
}

void info_print_group(const char *title, const json_t *group)
{
	const char *name;
	json_t *value;

	if (!json_is_object(group) || json_object_size(group) == 0)
		return;
	printf("%s\n", title);
	json_object_foreach((json_t *)group, name, value)
	{
		auto_free char *safe = text_safe(name);

		print_value(safe ? safe : "", value);
	}
}

static int cmd_info_run(struct cli *cli, struct err *e)
{
	auto_json json_t *result = NULL;
	char up[24];

	if (cli_connect(cli, 0, e) < 0)
		return err_wrap(e, "%s", cli->paths.socket);
	if (cli_ask(cli, "info", json_object(), &result, e) < 0)
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
	info_print_group("Memory, in MB:", json_object_get(result, "memory"));
	info_print_group("Directories:", json_object_get(result, "paths"));
	info_print_group("Configuration:", json_object_get(result, "config"));
	return EXIT_OK;
}

const struct cmd cmd_info = {
	.name = "info",
	.group = "This host:",
	.synopsis = "",
	.summary = "what the running daemon is and has",
	.about = "Does not start a daemon; without one the exit code is 4.",
	.examples = "  moat info --json | jq .memory",
	.flags = CMD_JSON,
	.run = cmd_info_run,
};
