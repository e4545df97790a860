#include "cli/cli.h"
#include "util/auto.h"

static int cmd_gc_run(struct cli *cli, struct err *e)
{
	auto_json json_t *result = NULL;
	const json_t *text, *removed;
	size_t i;

	if (cli_ask(cli, "gc", json_object(), &result, e) < 0)
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
	.about = "The daemon does the same whenever it starts. Sandboxes in use are not touched.",
	.examples = "  moat gc",
	.flags = CMD_JSON,
	.run = cmd_gc_run,
};
