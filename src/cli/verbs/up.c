#include "cli/choose-spec.h"
#include "cli/cli.h"
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

static int build_missing(struct cli *cli, const json_t *spec, struct err *e)
{
	const json_t *vms = json_object_get(spec, "vms");

	for (size_t i = 0; i < json_array_size(vms); i++) {
		const char *image = image_of(json_array_get(vms, i));

		if (!image)
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
	if (name && json_object_set_new(labels, "name", json_string(name)) < 0)
		return args_fail(e, "--name: not UTF-8");
	/* Not detached yet, so that the daemon removes the sandbox if we are killed before
	 * the end. */
	if (json_make(ret, e, "{s:O, s:O, s:b, s:b}", "spec", spec, "labels", labels, "detach", 0,
		    "wait", !args_has(cli->args, "no-wait")) < 0)
		return -1;
	return access_add_for(*ret, get_str(spec, "driver"), e);
}

/* Prints why VMs had to boot, unless the spec turned templates off. */
static void note_cold_starts(struct cli *cli, const json_t *spec, const json_t *vms)
{
	const json_t *asked = json_object_get(spec, "vms"), *vm;
	size_t i;

	json_array_foreach(vms, i, vm) {
		const char *why = get_str(vm, "cold_reason");

		if (*why && !json_is_false(json_object_get(json_array_get(asked, i), "warm")))
			cli_note(cli, "%s did not start warm: %s", get_str(vm, "name"), why);
	}
}

static int hold(struct cli *cli, const char *id, struct err *e)
{
	cli_note(cli, "sandbox %s is up; Ctrl-C removes it", id);
	if (client_wait_signal(cli->client, e) < 0)
		return -1;
	if (cli_request(cli, "rm", json_pack("{s:[s]}", "sandboxes", id), NULL, e) < 0 &&
		e->kind != ERR_NOT_FOUND)
		return -1;
	return EXIT_OK;
}

static int check_only(struct cli *cli, json_t *spec, struct err *e)
{
	auto_json json_t *result = NULL;

	if (cli_request(cli, "validate", json_pack("{s:O}", "spec", spec), &result, e) < 0)
		return -1;
	if (cli->json)
		return print_json(&cli->screen, result, e);
	cli_note(cli, "the spec is valid");
	return EXIT_OK;
}

static int cmd_up_run(struct cli *cli, struct err *e)
{
	auto_json json_t *spec = NULL, *args = NULL, *result = NULL;
	struct call call = {.op = "up"};
	const char *id;

	if (choose_spec(cli, &spec, e) < 0 || args_seconds(cli->args, "timeout", &call.timeout, e))
		return -1;
	if (args_has(cli->args, "check"))
		return check_only(cli, spec, e);
	if (up_args(cli, spec, &args, e) < 0)
		return -1;
	if (args_has(cli->args, "build") && build_missing(cli, spec, e) < 0)
		return -1;
	call.args = args;
	if (cli_call(cli, &call, &result, e) < 0)
		return call.timeout > 0 && e->kind == ERR_TIMEOUT
			       ? err_wrap(e, "not up after %g s (--timeout)", call.timeout)
			       : -1;
	id = get_str(result, "sandbox");
	note_cold_starts(cli, spec, json_object_get(result, "vms"));
	if (cli->json && print_json(&cli->screen, result, e) < 0)
		return -1;
	if (!cli->json)
		puts(id);
	/* If the id could not be printed, exit with the lease still ours: the daemon removes the
	 * sandbox. */
	if (check_stdout(e) < 0)
		return -1;
	if (args_has(cli->args, "attach"))
		return hold(cli, id, e);
	return cli_request(cli, "detach", json_pack("{s:s}", "sandbox", id), NULL, e);
}

static const struct opt up_opts[] = {
	{0, "image", "NAME", "one VM of this image, whatever its name looks like"},
	{0, "ram", "MB", "memory of that VM"},
	{0, "vcpus", "N", "processors of that VM"},
	{'l', "label", "NAME=VALUE", "label the sandbox (may be repeated)"},
	{'n', "name", "NAME", "short for --label name=NAME"},
	{0, "build", NULL, "first build the images that are missing"},
	{0, "no-wait", NULL, "fail when the host's memory is taken, instead of waiting"},
	{0, "timeout", "SECONDS", "give up, and leave nothing, after so long"},
	{0, "check", NULL, "check the spec and make nothing"},
	{'a', "attach", NULL, "stay, and remove the sandbox when this command ends"},
	{0},
};

const struct cmd cmd_up = {
	.name = "up",
	.group = "Sandboxes:",
	.synopsis = "[SPEC|IMAGE|VAGRANTFILE]",
	.summary = "make a sandbox and print its id",
	.about = "SPEC is a YAML or JSON file, or - for standard input; without it ./moat.yaml is\n"
		 "used. A bare word is the name of an image. VAGRANTFILE is a file with that word "
		 "in\n"
		 "front, or at its end after a dot; Vagrant then sees this command's environment. "
		 "The\n"
		 "sandbox stays until `moat rm`; interrupted before it is ready, nothing stays.",
	.examples = "  moat up debian12                     one VM\n"
		    "  id=$(moat up --ram 512 tiny)         its id, for a script\n"
		    "  moat up lab.yaml --label user=kim    several VMs and networks\n"
		    "  moat up --check lab.yaml             is the spec right?\n"
		    "  moat up ./Vagrantfile                the machines of a Vagrantfile",
	.opts = up_opts,
	.max = 1,
	.operand = OPERAND_SPEC,
	.flags = CMD_JSON,
	.run = cmd_up_run,
};
