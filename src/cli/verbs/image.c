#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/client/access.h"
#include "cli/cli.h"
#include "cli/image/made.h"
#include "cli/terminal/table.h"
#include "util/auto.h"
#include "util/str.h"

static void text_date(double when, char out[static 24])
{
	time_t t = (time_t)when;
	struct tm tm;

	if (when <= 0 || !localtime_r(&t, &tm) || !strftime(out, 24, "%Y-%m-%d", &tm))
		snprintf(out, 24, "-");
}

static int add_image(struct table *t, const json_t *image, struct err *e)
{
	char size[24], created[24], digest[16];

	text_size(get_num(image, "size"), size);
	text_date(get_num(image, "created"), created);
	snprintf(digest, sizeof(digest), "%.12s", get_str(image, "digest"));
	return table_row(t,
		(const char *[]){get_str(image, "name"), digest, size, created,
			get_str(image, "arch"), get_str(image, "user"),
			get_str(image, "description")},
		e);
}

static int print_images(struct cli *cli, const json_t *images, struct err *e)
{
	static const char *const heads[] = {
		"NAME", "DIGEST", "SIZE", "CREATED", "ARCH", "USER", "DESCRIPTION", NULL};
	auto_table struct table *t = NULL;
	const json_t *image;
	size_t i;

	if (table_new(heads, &t, e) < 0)
		return -1;
	json_array_foreach(images, i, image)
		if (add_image(t, image, e) < 0)
			return -1;
	table_print(t, &cli->screen, stdout);
	return EXIT_OK;
}

static int add_template(struct table *t, const json_t *one, struct err *e)
{
	char size[24], vmid[24];

	text_size(get_num(one, "size"), size);
	snprintf(vmid, sizeof(vmid), "%.0f", get_num(one, "vmid"));
	return table_row(t,
		(const char *[]){get_str(one, "pool"), get_str(one, "instance"), vmid,
			get_str(one, "name"), size,
			json_is_true(json_object_get(one, "made_by_moat")) ? "moat" : "-",
			get_str(one, "tags")},
		e);
}

/* Lists the templates on Proxmox servers; doomed: the image whose templates are removed,
 * or NULL. */
static int on_pool(struct cli *cli, const char *doomed, struct err *e)
{
	static const char *const heads[] = {
		"POOL", "INSTANCE", "VMID", "NAME", "SIZE", "MADE BY", "TAGS", NULL};
	auto_json json_t *result = NULL;
	auto_table struct table *t = NULL;
	json_t *args =
		json_pack("{s:s, s:s*}", "pool", args_get(cli->args, "on"), "remove", doomed);
	const json_t *list, *one;
	size_t i;

	if (!args)
		return args_fail(e, "the name is not UTF-8");
	if (access_add(args, e) < 0) {
		json_decref(args);
		return -1;
	}
	if (cli_request(cli, "pool.images", args, &result, e) < 0)
		return -1;
	if (doomed)
		return EXIT_OK;
	if (cli->json)
		return print_json(&cli->screen, result, e);
	list = json_object_get(result, "templates");
	if (json_array_size(list) == 0) {
		cli_note(cli, "no templates");
		return EXIT_OK;
	}
	if (table_new(heads, &t, e) < 0)
		return -1;
	json_array_foreach(list, i, one) {
		if (add_template(t, one, e) < 0)
			return -1;
	}
	table_print(t, &cli->screen, stdout);
	return EXIT_OK;
}

static void tell_damaged(struct cli *cli, const json_t *damaged)
{
	const json_t *one;
	size_t i;

	json_array_foreach(damaged, i, one)
		cli_note(cli, "image %s cannot be used: %s; `moat image rm %s` removes it",
			get_str(one, "name"), get_str(one, "error"), get_str(one, "name"));
}

static int image_ls_run(struct cli *cli, struct err *e)
{
	auto_json json_t *result = NULL;
	const json_t *images, *image;
	size_t i;

	if (args_has(cli->args, "no-start") && cli_connect(cli, 0, e) < 0)
		return -1;
	if (args_has(cli->args, "on"))
		return on_pool(cli, NULL, e);
	if (cli_request(cli, "image.ls", json_object(), &result, e) < 0)
		return -1;
	if (cli->json)
		return print_json(&cli->screen, result, e);
	images = json_object_get(result, "images");
	tell_damaged(cli, json_object_get(result, "damaged"));
	if (args_has(cli->args, "names")) {
		json_array_foreach(images, i, image)
			puts(get_str(image, "name"));
		return EXIT_OK;
	}
	if (json_array_size(images) == 0) {
		cli_note(cli, "no images; `moat image build debian12` makes one");
		return EXIT_OK;
	}
	return print_images(cli, images, e);
}

/* Makes {"image": NAME} of the operand. NULL, and e, on failure. */
static json_t *named_image(struct cli *cli, struct err *e)
{
	json_t *args = json_pack("{s:s}", "image", cli->args->operands[0]);

	if (!args)
		args_fail(e, "the image's name is not UTF-8");
	return args;
}

static int image_inspect_run(struct cli *cli, struct err *e)
{
	auto_json json_t *result = NULL;
	json_t *args = named_image(cli, e), *value;
	const char *key;

	if (!args || cli_request(cli, "image.inspect", args, &result, e) < 0)
		return -1;
	if (cli->json)
		return print_json(&cli->screen, result, e);
	json_object_foreach(result, key, value) {
		auto_free char *text =
			json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY);
		auto_free char *safe = text_safe(text ? text : json_string_value(value));
		char short_text[24] = "";

		if (strcmp(key, "size") == 0)
			text_size(json_number_value(value), short_text);
		else if (strcmp(key, "created") == 0)
			text_date(json_number_value(value), short_text);
		printf("%-12s %s\n", key, *short_text ? short_text : safe ? safe : "");
	}
	return EXIT_OK;
}

/* Adds to *freed. Templates on servers do not say how much they free. */
static int remove_one(struct cli *cli, const char *name, double *freed, struct err *e)
{
	auto_json json_t *result = NULL;

	if (args_has(cli->args, "on"))
		return on_pool(cli, name, e);
	if (cli_request(cli, "image.rm", json_pack("{s:s}", "image", name), &result, e) < 0)
		return -1;
	*freed += get_num(result, "freed");
	return 0;
}

/* Removes all operands, even if one fails. *first is the first error, or of kind ERR_NONE. */
static int remove_all(
	struct cli *cli, json_t *removed, double *freed, struct err *first, struct err *e)
{
	for (const char *const *name = cli->args->operands; *name; name++) {
		struct err why;

		if (remove_one(cli, *name, freed, &why) == 0) {
			if (json_array_append_new(removed, json_string(*name)) < 0)
				return err_oom(e);
			continue;
		}
		if (args_failed(&why)) {
			*e = why;
			return -1;
		}
		cli_print_error(cli, &why);
		if (first->kind == ERR_NONE)
			*first = why;
		if (why.kind == ERR_CANCELLED || why.kind == ERR_UNAVAILABLE)
			break; /* the others would fail in the same way */
	}
	return 0;
}

static int print_removed(
	struct cli *cli, json_t *removed, double freed, const struct err *first, struct err *e)
{
	const json_t *name;
	char size[24];
	size_t i;

	if (cli->json) {
		auto_json json_t *doc = json_pack("{s:O, s:o*, s:o*}", "removed", removed, "freed",
			args_has(cli->args, "on") ? NULL : json_integer((json_int_t)freed), "error",
			first->kind == ERR_NONE ? NULL : cli_error_json(first));

		return doc ? print_json(&cli->screen, doc, e) : err_oom(e);
	}
	json_array_foreach(removed, i, name)
		puts(json_string_value(name));
	if (json_array_size(removed) && !args_has(cli->args, "on")) {
		text_size(freed, size);
		cli_note(cli, "%s freed", size);
	}
	return 0;
}

static int image_rm_run(struct cli *cli, struct err *e)
{
	auto_json json_t *removed = json_array();
	struct err first = {.kind = ERR_NONE};
	double freed = 0;

	if (!removed)
		return err_oom(e);
	if (args_need_utf8(cli->args, e) < 0 || cli_connect(cli, CLIENT_START, e) < 0 ||
		remove_all(cli, removed, &freed, &first, e) < 0 ||
		print_removed(cli, removed, freed, &first, e) < 0)
		return -1;
	return first.kind == ERR_NONE ? EXIT_OK : (int)cli_code_of(&first);
}

static const struct opt image_ls_opts[] = {
	{'q', "names", NULL, "print names only, one a line"},
	{0, "on", "POOL", "list the templates on the Proxmox servers of a pool instead"},
	{0, "no-start", NULL, NULL},
	{0},
};
static const struct cmd image_ls = {
	.name = "image ls",
	.synopsis = "",
	.summary = "list the images",
	.examples = "  moat image ls\n"
		    "  moat image ls --on default",
	.opts = image_ls_opts,
	.flags = CMD_JSON,
	.run = image_ls_run,
};

static const struct cmd image_inspect = {
	.name = "image inspect",
	.synopsis = "IMAGE",
	.summary = "show everything known about an image",
	.examples = "  moat image inspect --json debian12",
	.min = 1,
	.max = 1,
	.operand = OPERAND_IMAGE,
	.flags = CMD_JSON,
	.run = image_inspect_run,
};

static const struct opt image_rm_opts[] = {
	{0, "on", "POOL",
		"remove a template that moat made on the servers of a pool: its number, "
		"name or tag"},
	{0},
};
static const struct cmd image_rm = {
	.name = "image rm",
	.synopsis = "IMAGE...",
	.summary = "remove images that no sandbox uses, and print their names",
	.about = "One that cannot be removed is named with the reason; the others are removed.",
	.examples = "  moat image rm tiny\n"
		    "  moat image rm --on default inspect-ubuntu24-04",
	.opts = image_rm_opts,
	.min = 1,
	.max = OPERANDS_ANY,
	.operand = OPERAND_IMAGE,
	.flags = CMD_JSON,
	.run = image_rm_run,
};

static const struct cmd *const image_subs[] = {&cmd_image_build, &cmd_image_pull, &cmd_image_import,
	&cmd_image_commit, &cmd_image_export, &image_ls, &image_inspect, &image_rm, &cmd_image_warm,
	&cmd_image_templates, &cmd_image_cool, NULL};

const struct cmd cmd_image = {
	.name = "image",
	.group = "Images:",
	.synopsis = "VERB",
	.summary = "build, pull, import, list, warm, inspect and remove images",
	.examples = "  moat image build debian12\n"
		    "  moat image ls",
	.subs = image_subs,
	.flags = CMD_NO_QUIET,
};
