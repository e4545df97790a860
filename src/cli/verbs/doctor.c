#include <string.h>

#include "cli/client/access.h"
#include "cli/cli.h"
#include "cli/settings.h"
#include "cli/terminal/table.h"
#include "util/auto.h"

static enum colour colour_of(const char *state)
{
	return strcmp(state, "ok") == 0     ? COLOUR_GREEN
	       : strcmp(state, "warn") == 0 ? COLOUR_YELLOW
					    : COLOUR_RED;
}

static bool is_fine(const json_t *check)
{
	return strcmp(get_str(check, "state"), "ok") == 0;
}

static bool any_missing(const json_t *checks)
{
	const json_t *check;
	size_t i;

	json_array_foreach(checks, i, check)
		if (strcmp(get_str(check, "state"), "missing") == 0)
			return true;
	return false;
}

static int print_checks(struct cli *cli, const json_t *checks, struct err *e)
{
	static const char *const heads[] = {"STATE", "DRIVER", "CHECK", "DETAIL", NULL};
	auto_table struct table *t = NULL;
	struct screen whole = cli->screen;
	const json_t *check;
	size_t i;

	whole.width = 0; /* the end of a line may be what has to be typed */
	if (table_new(heads, &t, e) < 0)
		return -1;
	json_array_foreach(checks, i, check) {
		if (table_row(t,
			    (const char *[]){get_str(check, "state"), get_str(check, "driver"),
				    get_str(check, "name"), get_str(check, "detail")},
			    e) < 0)
			return -1;
		table_colour(t, colour_of(get_str(check, "state")));
	}
	table_print(t, &whole, stdout);
	return 0;
}

static void print_fixes(const json_t *checks)
{
	bool titled = false;
	const json_t *check;
	size_t i;

	json_array_foreach(checks, i, check) {
		auto_free char *name = text_safe(get_str(check, "name"));
		auto_free char *fix = text_safe(get_str(check, "fix"));

		if (is_fine(check) || !name || !fix || !*fix)
			continue;
		printf("%s  %-16s %s\n", titled ? "" : "\nTo fix:\n", name, fix);
		titled = true;
	}
}

static int cmd_doctor_run(struct cli *cli, struct err *e)
{
	auto_json json_t *result = NULL, *info = NULL;
	const json_t *checks;
	const char *driver = cli->args->n_operands ? cli->args->operands[0] : NULL;
	json_t *args;

	if (args_need_utf8(cli->args, e) < 0)
		return -1;
	args = json_pack("{s:s*}", "driver", driver);
	if (!args)
		return err_oom(e);
	if (driver && access_add_for(args, driver, e) < 0) {
		json_decref(args);
		return -1;
	}
	if (cli_connect(cli, CLIENT_START | CLIENT_ANY_CONFIG, e) < 0) {
		json_decref(args);
		return -1;
	}
	if (cli_request(cli, "doctor", args, &result, e) < 0)
		return -1;
	if (cli_request(cli, "info", json_object(), &info, e) < 0)
		return -1;
	checks = json_object_get(result, "checks");
	if (cli->json) {
		json_object_set(result, "paths", json_object_get(info, "paths"));
		json_object_set(result, "config", json_object_get(info, "config"));
		if (print_json(&cli->screen, result, e) < 0)
			return -1;
		return any_missing(checks) ? EXIT_FAILED : EXIT_OK;
	}
	if (print_checks(cli, checks, e) < 0)
		return -1;
	print_fixes(checks);
	putchar('\n');
	print_settings("Directories:", json_object_get(info, "paths"));
	print_settings("Configuration:", json_object_get(info, "config"));
	return any_missing(checks) ? EXIT_FAILED : EXIT_OK;
}

const struct cmd cmd_doctor = {
	.name = "doctor",
	.group = "This host:",
	.synopsis = "[DRIVER]",
	.summary = "check what moat needs here, and say how to get what is missing",
	.about = "Also prints the directories and the configuration in force. The exit code is 1 "
		 "when\n"
		 "something is missing. Proxmox servers are those of PROXMOX_HOST or "
		 "PROXMOX_CONFIG_FILE.",
	.examples = "  moat doctor\n"
		    "  moat doctor qemu\n"
		    "  moat doctor proxmox\n"
		    "  moat doctor vagrant",
	.max = 1,
	.operand = OPERAND_DRIVER,
	.flags = CMD_JSON,
	.run = cmd_doctor_run,
};
