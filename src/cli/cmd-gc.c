#include "cli/access.h"
#include "cli/cli.h"
#include "util/auto.h"

static int cmd_gc_run(struct cli *cli, struct err *e)
{
	auto_json json_t *result = NULL;
	json_t *args = json_object();
	const json_t *text, *removed;
	size_t i;

	if (access_add(args, e) < 0) {
		json_decref(args);
		return -1;
	}
	if (cli_ask(cli, "gc", args, &result, e) < 0)
		return -1;
	if (cli->json)
		return print_json(&cli->screen, result, e);
	removed = json_object_get(result, "removed");
	json_array_foreach(removed, i, text)
	{
		auto_free char *safe = text_safe(json_string_value(text));

		printf("removed %s\n", safe ? safe : "");
	}
	if (json_array_size(removed) == 0)
		cli_note(cli, "nothing was left over");
	return EXIT_OK;
}

const struct cmd cmd_gc = {
	.name = "gc",
	.group = "This host:",
	.synopsis = "",
	.summary = "remove what crashes left behind, and say what it was",
	.about = "The daemon does the same whenever it starts. Sandboxes in use are not touched. "
		 "Servers\nthat PROXMOX_HOST or PROXMOX_CONFIG_FILE name are looked at, too.",
	.examples = "  moat gc",
	.flags = CMD_JSON,
	.run = cmd_gc_run,
};
