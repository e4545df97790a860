#include "cli/cli.h"
#include "spec/spec.h"
#include "util/auto.h"

static int cmd_schema_run(struct cli *cli, struct err *e)
{
	auto_free char *text = NULL;

	(void)cli;
	if (spec_schema(&text, e) < 0)
		return -1;
	puts(text);
	return EXIT_OK;
}

const struct cmd cmd_schema = {
	.name = "schema",
	.group = "About moat:",
	.synopsis = "",
	.summary = "print the JSON Schema of a sandbox spec",
	.about = "Editors use it to check and complete spec files.",
	.examples = "  moat schema > moat.schema.json\n"
		    "  # in the first line of a spec, for editors with the YAML language server:\n"
		    "  # yaml-language-server: $schema=./moat.schema.json",
	.flags = CMD_JSON | CMD_NO_QUIET | CMD_NO_PATHS,
	.run = cmd_schema_run,
};
