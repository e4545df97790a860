#include "cli/client/access.h"
#include "cli/cli.h"
#include "util/auto.h"

static int cmd_gc_run(struct cli *cli, struct err *e)
{
	auto_json json_t *result = NULL;
	json_t *args = json_object();
	const json_t *text, *removed, *failed;
	enum exit_code code;
	size_t i;

	if (args_has(cli->args, "kept"))
		json_object_set_new(args, "kept", json_true());
	if (access_add_all(args, e) < 0) {
		json_decref(args);
		return -1;
	}
	if (cli_request(cli, "gc", args, &result, e) < 0)
		return -1;
	removed = json_object_get(result, "removed");
	failed = json_object_get(result, "failed");
	code = json_array_size(failed) ? EXIT_FAILED : EXIT_OK;
	if (cli->json)
		return print_json(&cli->screen, result, e) < 0 ? -1 : (int)code;
	json_array_foreach(removed, i, text) {
		auto_free char *safe = text_safe(json_string_value(text));

		printf("removed %s\n", safe ? safe : "");
	}
	fflush(stdout); /* show what was removed before the errors */
	json_array_foreach(failed, i, text) {
		const char *why = json_string_value(text);
		struct err one;

		err_set(&one, ERR_BACKEND, "not removed: %s", why ? why : "");
		cli_print_error(cli, &one);
	}
	if (json_array_size(removed) == 0 && code == EXIT_OK)
		cli_note(cli, "nothing was left over");
	return (int)code;
}

static const struct opt gc_opts[] = {
	{0, "kept", NULL, "also all that is kept of container images for later ones"},
	{0},
};
const struct cmd cmd_gc = {
	.name = "gc",
	.group = "This host:",
	.synopsis = "",
	.summary = "remove what crashes left behind, and say what it was",
	.about = "The daemon does the same whenever it starts. Sandboxes in use are not touched. "
		 "Servers\nthat PROXMOX_HOST or PROXMOX_CONFIG_FILE name are looked at, too. What "
		 "cannot be\nremoved is named, and makes the exit code 1.",
	.examples = "  moat gc",
	.opts = gc_opts,
	.flags = CMD_JSON,
	.run = cmd_gc_run,
};
