#include <string.h>

#include "cli/cli.h"
#include "cli/format.h"
#include "cli/listing/listing.h"
#include "cli/listing/watch.h"
#include "cli/terminal/table.h"
#include "util/auto.h"

/* Columns that are shown only where they would tell something. */
struct columns {
	bool names, drivers, touched;
};

static struct columns columns_of(const json_t *list)
{
	struct columns c = {0};
	const json_t *sb;
	size_t i;

	json_array_foreach(list, i, sb) {
		c.names |= *get_str(sb, "name") != 0;
		c.drivers |= strcmp(get_str(sb, "driver"), "qemu") != 0;
		c.touched |= json_object_get(sb, "touched") != NULL;
	}
	return c;
}

static int add_sandbox(struct table *t, struct columns c, const json_t *sb, struct err *e)
{
	auto_json json_t *shown = listing_labels(sb);
	auto_free char *vms = format_list(json_object_get(sb, "vms"), "name");
	auto_free char *labels = format_list(shown, NULL);
	auto_free char *touched = format_list(json_object_get(sb, "touched"), "what");
	const char *cells[9], **cell = cells;
	char age[24], owner[24] = "-";

	text_age(get_num(sb, "age"), age);
	if (!json_is_true(json_object_get(sb, "detached")) && get_num(sb, "owner_pid") > 0)
		snprintf(owner, sizeof(owner), "%.0f", get_num(sb, "owner_pid"));
	*cell++ = get_str(sb, "id");
	if (c.names)
		*cell++ = *get_str(sb, "name") ? get_str(sb, "name") : "-";
	*cell++ = listing_state(sb);
	if (c.drivers)
		*cell++ = get_str(sb, "driver");
	*cell++ = age;
	*cell++ = owner;
	*cell++ = vms;
	if (c.touched)
		*cell++ = touched && *touched ? touched : "-";
	*cell++ = labels;
	if (table_row(t, cells, e) < 0)
		return -1;
	table_colour(t, listing_colour(listing_state(sb)));
	return 0;
}

static int print_sandboxes(struct cli *cli, const json_t *list, struct err *e)
{
	struct columns c = columns_of(list);
	const char *heads[10] = {"ID"}, **head = heads + 1;
	auto_table struct table *t = NULL;
	const json_t *sb;
	size_t i;

	if (c.names)
		*head++ = "NAME";
	*head++ = "STATE";
	if (c.drivers)
		*head++ = "DRIVER";
	*head++ = "AGE";
	*head++ = "OWNER";
	*head++ = "VMS";
	if (c.touched)
		*head++ = "TOUCHED";
	*head++ = "LABELS";
	if (table_new(heads, &t, e) < 0)
		return -1;
	json_array_foreach(list, i, sb)
		if (add_sandbox(t, c, sb, e) < 0)
			return -1;
	table_print(t, &cli->screen, stdout);
	return EXIT_OK;
}

static int add_vm(struct table *t, const json_t *vm, struct err *e)
{
	char ram[24], vcpus[24], pid[24] = "-";

	text_size(get_num(vm, "ram_mb") * 1024 * 1024, ram);
	snprintf(vcpus, sizeof(vcpus), "%.0f", get_num(vm, "vcpus"));
	if (get_num(vm, "pid") > 0)
		snprintf(pid, sizeof(pid), "%.0f", get_num(vm, "pid"));
	if (table_row(t,
		    (const char *[]){get_str(vm, "name"), get_str(vm, "state"),
			    get_str(vm, "image"), get_str(vm, "user"), ram, vcpus, pid,
			    get_str(vm, "accelerator"), get_str(vm, "error")},
		    e) < 0)
		return -1;
	table_colour(t, listing_colour(get_str(vm, "state")));
	return 0;
}

/* Prints a sandbox's VMs. */
static int print_vms(struct cli *cli, const json_t *sb, struct err *e)
{
	static const char *const heads[] = {
		"VM", "STATE", "IMAGE", "USER", "RAM", "VCPUS", "PID", "ACCEL", "ERROR", NULL};
	auto_table struct table *t = NULL;
	const json_t *vm;
	size_t i;

	if (table_new(heads, &t, e) < 0)
		return -1;
	json_array_foreach(json_object_get(sb, "vms"), i, vm)
		if (add_vm(t, vm, e) < 0)
			return -1;
	table_print(t, &cli->screen, stdout);
	return EXIT_OK;
}

/* For completion also the names: each stands wherever an id does. */
static int print_ids(const json_t *list, bool names)
{
	const json_t *sb;
	size_t i;

	json_array_foreach(list, i, sb) {
		puts(get_str(sb, "id"));
		if (names && *get_str(sb, "name"))
			puts(get_str(sb, "name"));
	}
	return EXIT_OK;
}

static int print_formatted(const char *format, const json_t *list, struct err *e)
{
	auto_buf struct buf text = {0};
	const json_t *sb;
	size_t i;

	json_array_foreach(list, i, sb)
		if (format_sandbox(format, sb, &text, e) < 0)
			return -1;
	fwrite(buf_data(&text), 1, text.len, stdout);
	return EXIT_OK;
}

/* Leaves in the list what the options ask for. *ret_hidden: how many were left out only because
 * they are in standby. */
static int choose(struct cli *cli, json_t *list, size_t *ret_hidden, struct err *e)
{
	bool standby = cli->json || args_has(cli->args, "all") || cli->args->n_operands;
	auto_json json_t *wanted = json_object();

	if (args_pairs(cli->args, "label", false, wanted, e) < 0)
		return -1;
	for (size_t i = json_array_size(list); i-- > 0;) {
		const json_t *sb = json_array_get(list, i);
		bool ready = strcmp(get_str(sb, "state"), "standby") == 0;

		if (listing_wants(sb, wanted) && (standby || !ready))
			continue;
		*ret_hidden += listing_wants(sb, wanted);
		json_array_remove(list, i);
	}
	return 0;
}

static int print_all(struct cli *cli, json_t *list, struct err *e)
{
	const char *format = args_get(cli->args, "format");
	size_t hidden = 0;

	if (choose(cli, list, &hidden, e) < 0)
		return -1;
	if (args_has(cli->args, "ids"))
		return print_ids(list, args_has(cli->args, "no-start"));
	if (format)
		return print_formatted(format, list, e);
	if (hidden)
		cli_note(cli, "%zu in standby; `moat ls -a` shows them", hidden);
	if (json_array_size(list) > 0)
		return print_sandboxes(cli, list, e);
	if (!hidden && args_has(cli->args, "label"))
		cli_note(cli, "no sandboxes with such labels");
	else if (!hidden)
		cli_note(cli, "no sandboxes; `moat up IMAGE` makes one");
	return EXIT_OK;
}

static int cmd_ls_run(struct cli *cli, struct err *e)
{
	bool one = cli->args->n_operands == 1;
	auto_json json_t *result = NULL;
	json_t *args, *list;
	size_t hidden = 0;

	if (args_has(cli->args, "watch"))
		return watch_run(cli, e);
	/* --no-start is for completion: a key press must not start a daemon. */
	if (args_has(cli->args, "no-start") && cli_connect(cli, 0, e) < 0)
		return -1;
	args = cli_target(cli, one ? cli->args->operands[0] : NULL, e);
	if (!args || cli_request(cli, "ls", args, &result, e) < 0)
		return -1;
	list = json_object_get(result, "sandboxes");
	if (cli->json)
		return choose(cli, list, &hidden, e) < 0 ? -1 : print_json(&cli->screen, result, e);
	if (args_has(cli->args, "no-trunc"))
		cli->screen.width = 0;
	if (one && !args_has(cli->args, "ids") && !args_has(cli->args, "format"))
		return print_vms(cli, json_array_get(list, 0), e);
	return print_all(cli, list, e);
}

static const struct opt ls_opts[] = {
	{'a', "all", NULL, "also those in standby"},
	{'l', "label", "NAME=VALUE", "those that carry this label (repeated: all of the labels)"},
	{'q', "ids", NULL, "print ids only, one a line"},
	{0, "format", "TEXT", "print this for each, {FIELD}s filled in; see below"},
	{'w', "watch", NULL, "show what the VMs do, live, until q is pressed"},
	{0, "no-trunc", NULL, "do not cut columns to the terminal's width"},
	{0, "no-start", NULL, NULL},
	{0},
};

const struct cmd cmd_ls = {
	.name = "ls",
	.group = "Sandboxes:",
	.synopsis = "[SANDBOX]",
	.summary = "list the sandboxes, or the VMs of one",
	.about = "OWNER is the process whose end removes the sandbox; - means that it stays until\n"
		 "`moat rm`. NAME and DRIVER are left out where they would tell nothing. Fields "
		 "of\n"
		 "--format: {id} {name} {state} {driver} {age} {created} {owner_pid} {vms} "
		 "{labels}\n"
		 "{label.NAME}; \\t and \\n are a tab and a newline.\n"
		 "\n"
		 "--watch shows what each VM uses of this host's processors (100% is one) and\n"
		 "memory, what it sends and receives, and the command that ran in it last (with >\n"
		 "while it runs). Where the output is no terminal it prints a line for each\n"
		 "change, and with --json a document for each event of the protocol.",
	.examples = "  moat ls\n"
		    "  moat ls -l task=ctf --format '{id}\\t{label.sample}\\t{state}'\n"
		    "  moat ls --watch\n"
		    "  moat ls -q | xargs -r moat rm\n"
		    "  moat ls --json | jq '.sandboxes[].labels'",
	.opts = ls_opts,
	.max = 1,
	.operand = OPERAND_SANDBOX,
	.flags = CMD_JSON,
	.run = cmd_ls_run,
};
