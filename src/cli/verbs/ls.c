#include <string.h>

#include "cli/cli.h"
#include "cli/terminal/table.h"
#include "util/auto.h"

/* Joins an array's members to "a,b,c", or an object's to "k=v,k=v". */
static char *join(const json_t *j, const char *member)
{
	struct err ignored;
	struct buf b = {0};
	const char *key;
	json_t *value;
	size_t i;

	if (json_is_array(j)) {
		json_array_foreach(j, i, value)
			buf_printf(&b, &ignored, "%s%s", i ? "," : "", get_str(value, member));
	} else {
		json_object_foreach((json_t *)j, key, value)
			buf_printf(&b, &ignored, "%s%s=%s", b.len ? "," : "", key,
				json_is_string(value) ? json_string_value(value) : "?");
	}
	return buf_take_str(&b);
}

static enum colour colour_of(const char *state)
{
	return strcmp(state, "running") == 0                                ? COLOUR_GREEN
	       : strcmp(state, "failed") == 0 || strcmp(state, "dead") == 0 ? COLOUR_RED
									    : COLOUR_YELLOW;
}

/* The state of a sandbox. One that runs is "dead" if all its VMs are dead, "part dead" if
 * some are. */
static const char *state_of(const json_t *sb)
{
	const json_t *vms = json_object_get(sb, "vms"), *vm;
	const char *state = get_str(sb, "state");
	size_t dead = 0, i;

	json_array_foreach(vms, i, vm)
		dead += strcmp(get_str(vm, "state"), "dead") == 0;
	if (!dead || strcmp(state, "running") != 0)
		return state;
	return dead == json_array_size(vms) ? "dead" : "part dead";
}

static int add_sandbox(struct table *t, const json_t *sb, struct err *e)
{
	auto_free char *vms = join(json_object_get(sb, "vms"), "name");
	auto_free char *labels = join(json_object_get(sb, "labels"), NULL);
	char age[24], owner[24] = "-";

	text_age(get_num(sb, "age"), age);
	if (!json_is_true(json_object_get(sb, "detached")) && get_num(sb, "owner_pid") > 0)
		snprintf(owner, sizeof(owner), "%.0f", get_num(sb, "owner_pid"));
	if (table_row(t,
		    (const char *[]){get_str(sb, "id"), state_of(sb), get_str(sb, "driver"), age,
			    owner, vms, labels},
		    e) < 0)
		return -1;
	table_colour(t, colour_of(state_of(sb)));
	return 0;
}

static int print_sandboxes(struct cli *cli, const json_t *list, struct err *e)
{
	static const char *const heads[] = {
		"ID", "STATE", "DRIVER", "AGE", "OWNER", "VMS", "LABELS", NULL};
	auto_table struct table *t = NULL;
	const json_t *sb;
	size_t i;

	if (table_new(heads, &t, e) < 0)
		return -1;
	json_array_foreach(list, i, sb)
		if (add_sandbox(t, sb, e) < 0)
			return -1;
	table_print(t, &cli->screen);
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
	table_colour(t, colour_of(get_str(vm, "state")));
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
	table_print(t, &cli->screen);
	return EXIT_OK;
}

static int print_ids(const json_t *list)
{
	const json_t *sb;
	size_t i;

	json_array_foreach(list, i, sb)
		puts(get_str(sb, "id"));
	return EXIT_OK;
}

static int cmd_ls_run(struct cli *cli, struct err *e)
{
	bool one = cli->args->n_operands == 1;
	auto_json json_t *result = NULL;
	json_t *args, *list;

	/* --no-start is for completion: a key press must not start a daemon. */
	if (args_has(cli->args, "no-start") && cli_connect(cli, 0, e) < 0)
		return -1;
	args = cli_target(cli, one ? cli->args->operands[0] : NULL, e);
	if (!args || cli_request(cli, "ls", args, &result, e) < 0)
		return -1;
	if (cli->json)
		return print_json(&cli->screen, result, e);
	list = json_object_get(result, "sandboxes");
	if (args_has(cli->args, "ids"))
		return print_ids(list);
	if (one)
		return print_vms(cli, json_array_get(list, 0), e);
	if (json_array_size(list) == 0) {
		cli_note(cli, "no sandboxes; `moat up IMAGE` makes one");
		return EXIT_OK;
	}
	return print_sandboxes(cli, list, e);
}

static const struct opt ls_opts[] = {
	{'q', "ids", NULL, "print ids only, one a line"},
	{0, "no-start", NULL, NULL},
	{0},
};

const struct cmd cmd_ls = {
	.name = "ls",
	.group = "Sandboxes:",
	.synopsis = "[SANDBOX]",
	.summary = "list the sandboxes, or the VMs of one",
	.about = "OWNER is the process whose end removes the sandbox; - means that it stays until\n"
		 "`moat rm`.",
	.examples = "  moat ls\n"
		    "  moat ls -q | xargs -r moat rm\n"
		    "  moat ls --json | jq '.sandboxes[].labels'",
	.opts = ls_opts,
	.max = 1,
	.operand = OPERAND_SANDBOX,
	.flags = CMD_JSON,
	.run = cmd_ls_run,
};
