#include "cli/choose/spec.h"
#include "cli/cli.h"
#include "cli/terminal/signals.h"
#include "util/auto.h"

enum { STANDBY_MAX = 64 };

static int cmd_standby_run(struct cli *cli, struct err *e)
{
	auto_json json_t *spec = NULL, *args = NULL;
	struct call call = {.op = "standby"};
	uint64_t count = 1;
	double idle = 0;

	if (choose_spec(cli, &spec, e) < 0 ||
		args_number(cli->args, "count", STANDBY_MAX, &count, e) < 0 ||
		args_seconds(cli->args, "idle", &idle, e) < 0)
		return -1;
	if (json_make(&args, e, "{s:O, s:I}", "spec", spec, "count", (json_int_t)count) < 0)
		return -1;
	if (idle > 0)
		json_object_set_new(args, "idle", json_real(idle));
	call.args = args;
	cli_note(cli, "`moat up` of this spec takes one that is ready; Ctrl-C removes the others");
	if (cli_call(cli, &call, NULL, e) == 0)
		return EXIT_OK; /* none was taken for --idle seconds */
	return signals_seen() ? EXIT_OK : -1;
}

static const struct opt standby_opts[] = {
	{'n', "count", "N", "how many (default: 1)"},
	{0, "idle", "SECONDS", "end when nobody took one for so long (default: an hour)"},
	{0, "image", "NAME", "one VM of this image, whatever its name looks like"},
	{0, "ram", "MB", "memory of that VM: a number of MB, or 4G"},
	{0, "vcpus", "N", "processors of that VM"},
	{0},
};

const struct cmd cmd_standby = {
	.name = "standby",
	.group = "Sandboxes:",
	.synopsis = "[SPEC|IMAGE]",
	.summary = "keep started sandboxes ready for the next `moat up`, until interrupted",
	.about = "The next `up` of an equal spec, by whatever client, is given one that is ready "
		 "and\n"
		 "another is started in its place. Those in standby give their memory back when a\n"
		 "sandbox that somebody waits for needs it.",
	.examples = "  moat standby -n 2 debian12\n"
		    "  moat standby lab.yaml",
	.opts = standby_opts,
	.max = 1,
	.operand = OPERAND_SPEC,
	.run = cmd_standby_run,
};
