/* warm.c - `moat image warm`, `moat image templates` and `moat image cool`. */
#include <string.h>
#include <time.h>

#include "cli/choose/spec.h"
#include "cli/cli.h"
#include "cli/terminal/table.h"
#include "util/auto.h"

/* Why a VM had to boot; NULL if none had to. */
static const char *cold_reason(const json_t *result)
{
	const json_t *vm;
	size_t i;

	json_array_foreach(json_object_get(result, "vms"), i, vm)
		if (strcmp(get_str(vm, "start"), "warm") != 0)
			return get_str(vm, "cold_reason");
	return NULL;
}

/* Whether the spec turns templates off, which no boot is needed to find out. */
static bool is_turned_off(const json_t *spec)
{
	const json_t *vm;
	size_t i;

	json_array_foreach(json_object_get(spec, "vms"), i, vm)
		if (json_is_false(json_object_get(vm, "warm")))
			return true;
	return false;
}

/* Starts and removes one sandbox. That makes the templates of all its VMs and shows that
 * they work. */
static int image_warm_run(struct cli *cli, struct err *e)
{
	auto_json json_t *spec = NULL, *result = NULL;
	const char *cold;

	if (choose_spec(cli, &spec, e) < 0)
		return -1;
	if (is_turned_off(spec))
		return err_set(
			e, ERR_UNSUPPORTED, "there can be no template: the spec says warm: false");
	if (cli_request(cli, "up", json_pack("{s:O}", "spec", spec), &result, e) < 0 ||
		cli_request(cli, "rm",
			json_pack("{s:[s]}", "sandboxes", get_str(result, "sandbox")), NULL, e) < 0)
		return -1;
	cold = cold_reason(result);
	if (cold)
		return err_set(e, ERR_UNSUPPORTED, "there can be no template: %s", cold);
	return cli->json ? print_json(&cli->screen, result, e) : EXIT_OK;
}

static int add_row(struct table *t, const json_t *one, struct err *e)
{
	char size[24], used[24], key[16], shape[48];

	text_size(get_num(one, "size"), size);
	text_age((double)time(NULL) - get_num(one, "used"), used);
	snprintf(key, sizeof(key), "%.12s", get_str(one, "key"));
	snprintf(shape, sizeof(shape), "%.0f MB, %.0f CPU, %.0f NIC", get_num(one, "ram_mb"),
		get_num(one, "vcpus"), get_num(one, "nics"));
	return table_row(t,
		(const char *[]){key, get_str(one, "name"), shape, get_str(one, "accelerator"),
			size, used, json_is_true(json_object_get(one, "in_memory")) ? "yes" : "no"},
		e);
}

static int templates_run(struct cli *cli, struct err *e)
{
	static const char *const heads[] = {
		"TEMPLATE", "IMAGE", "SHAPE", "ACCEL", "SIZE", "USED", "IN MEMORY", NULL};
	auto_json json_t *result = NULL;
	auto_table struct table *t = NULL;
	const json_t *all, *one;
	size_t i;

	if (cli_request(cli, "template.ls", json_object(), &result, e) < 0)
		return -1;
	if (cli->json)
		return print_json(&cli->screen, result, e);
	all = json_object_get(result, "templates");
	if (json_array_size(all) == 0) {
		cli_note(cli, "no templates; the first VM of a kind makes one");
		return EXIT_OK;
	}
	if (table_new(heads, &t, e) < 0)
		return -1;
	json_array_foreach(all, i, one)
		if (add_row(t, one, e) < 0)
			return -1;
	table_print(t, &cli->screen, stdout);
	return EXIT_OK;
}

static int cool_one(struct cli *cli, const char *key, double *freed, struct err *e)
{
	auto_json json_t *result = NULL;

	if (cli_request(cli, "template.rm", json_pack("{s:s}", "template", key), &result, e) < 0)
		return -1;
	*freed += get_num(result, "freed");
	return 0;
}

static int cool_run(struct cli *cli, struct err *e)
{
	auto_json json_t *listed = NULL;
	const json_t *one;
	double freed = 0;
	char size[24];
	size_t k;

	if (args_has(cli->args, "all") == (cli->args->n_operands > 0))
		return args_fail(e, "name templates, or give --all");
	if (args_need_utf8(cli->args, e) < 0)
		return -1;
	if (args_has(cli->args, "all")) {
		if (cli_request(cli, "template.ls", json_object(), &listed, e) < 0)
			return -1;
		json_array_foreach(json_object_get(listed, "templates"), k, one)
			if (cool_one(cli, get_str(one, "key"), &freed, e) < 0 &&
				e->kind != ERR_BUSY)
				return -1;
	}
	for (unsigned i = 0; i < cli->args->n_operands; i++)
		if (cool_one(cli, cli->args->operands[i], &freed, e) < 0)
			return -1;
	if (cli->json) {
		auto_json json_t *doc = json_pack("{s:I}", "freed", (json_int_t)freed);

		return doc ? print_json(&cli->screen, doc, e) : err_oom(e);
	}
	text_size(freed, size);
	cli_note(cli, "%s freed", size);
	return EXIT_OK;
}

static const struct opt warm_opts[] = {
	{0, "image", "NAME", "one VM of this image, whatever its name looks like"},
	{0, "ram", "MB", "memory of that VM"},
	{0, "vcpus", "N", "processors of that VM"},
	{0},
};
const struct cmd cmd_image_warm = {
	.name = "image warm",
	.synopsis = "SPEC|IMAGE",
	.summary = "make the templates from which such VMs start quickly",
	.about = "The first VM of a kind (image, memory, processors, devices) boots once and is\n"
		 "saved; all later ones start from that. This does it ahead of need.",
	.examples = "  moat image warm --ram 1024 debian12\n"
		    "  moat image warm lab.yaml",
	.opts = warm_opts,
	.min = 1,
	.max = 1,
	.operand = OPERAND_SPEC,
	.flags = CMD_JSON,
	.run = image_warm_run,
};

const struct cmd cmd_image_templates = {
	.name = "image templates",
	.synopsis = "",
	.summary = "list the saved VMs that others start from",
	.examples = "  moat image templates",
	.flags = CMD_JSON,
	.run = templates_run,
};

static const struct opt cool_opts[] = {
	{'a', "all", NULL, "all that no VM uses"},
	{0},
};
const struct cmd cmd_image_cool = {
	.name = "image cool",
	.synopsis = "[TEMPLATE...]",
	.summary = "remove templates that no VM uses",
	.examples = "  moat image cool 3f9c02\n"
		    "  moat image cool --all",
	.opts = cool_opts,
	.max = OPERANDS_ANY,
	.flags = CMD_JSON,
	.run = cool_run,
};
