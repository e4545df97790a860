#include "cli/up.h"

#include <string.h>

#include "cli/client/access.h"
#include "util/auto.h"

/* The name of the image that a VM starts from, if moat may be able to build it. */
static const char *image_of(const json_t *vm)
{
	const json_t *source = json_object_get(vm, "source");
	const char *name = json_string_value(source);

	if (!name)
		name = json_string_value(json_object_get(source, "image"));
	if (!name)
		name = json_string_value(json_object_get(source, "built_in"));
	return name;
}

/* all: not only the empty disk, which takes no time and needs nothing. */
static int build_missing(struct cli *cli, const json_t *spec, bool all, struct err *e)
{
	const json_t *vms = json_object_get(spec, "vms");

	for (size_t i = 0; i < json_array_size(vms); i++) {
		const char *image = image_of(json_array_get(vms, i));

		if (!image || (!all && strcmp(image, "blank") != 0))
			continue;
		if (cli_request(
			    cli, "image.inspect", json_pack("{s:s}", "image", image), NULL, e) == 0)
			continue;
		if (e->kind != ERR_NOT_FOUND)
			return -1;
		if (cli_request(cli, "image.build", json_pack("{s:s}", "image", image), NULL, e) <
			0)
			return -1;
	}
	return 0;
}

static int up_args(struct cli *cli, json_t *spec, json_t **ret, struct err *e)
{
	auto_json json_t *labels = json_object();
	const char *name = args_get(cli->args, "name");

	if (!labels)
		return err_oom(e);
	if (args_pairs(cli->args, "label", false, labels, e) < 0)
		return -1;
	/* Not detached yet, so that the daemon removes the sandbox if we are killed before
	 * the end. */
	if (json_make(ret, e, "{s:O, s:O, s:b, s:b}", "spec", spec, "labels", labels, "detach", 0,
		    "wait", !args_has(cli->args, "no-wait")) < 0)
		return -1;
	if (name && json_object_set_new(*ret, "name", json_string(name)) < 0)
		return args_fail(e, "--name: not UTF-8");
	return access_add_for(*ret, get_str(spec, "driver"), e);
}

/* Prints what VMs lack, and why they had to boot, unless the spec turned templates off. */
static void note_vms(struct cli *cli, const json_t *spec, const json_t *vms)
{
	const json_t *asked = json_object_get(spec, "vms"), *vm;
	size_t i;

	json_array_foreach(vms, i, vm) {
		const char *why = get_str(vm, "cold_reason"), *lack = get_str(vm, "lack");

		if (*lack)
			cli_note(cli, "%s: %s", get_str(vm, "name"), lack);
		/* A VM that is no sandbox always boots. */
		if (*why && json_is_true(json_object_get(vm, "sandbox")) &&
			!json_is_false(json_object_get(json_array_get(asked, i), "warm")))
			cli_note(cli, "%s did not start warm: %s", get_str(vm, "name"), why);
	}
}

int up_make(struct cli *cli, json_t *spec, double timeout, json_t **ret, struct err *e)
{
	auto_json json_t *args = NULL;
	struct call call = {.op = "up", .timeout = timeout};

	if (up_args(cli, spec, &args, e) < 0)
		return -1;
	if (build_missing(cli, spec, args_has(cli->args, "build"), e) < 0)
		return -1;
	call.args = args;
	if (cli_call(cli, &call, ret, e) < 0)
		return timeout > 0 && e->kind == ERR_TIMEOUT
			       ? err_wrap(e, "not up after %g s (--timeout)", timeout)
			       : -1;
	note_vms(cli, spec, json_object_get(*ret, "vms"));
	return 0;
}
