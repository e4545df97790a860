#include <string.h>

#include "cli/image/made.h"
#include "cli/image/steps.h"
#include "util/auto.h"

static bool has_steps(const struct cli *cli)
{
	return args_has(cli->args, "copy") || args_has(cli->args, "packages") ||
	       args_has(cli->args, "run") || args_has(cli->args, "disk-gb") ||
	       args_has(cli->args, "name");
}

/* *ret: {"image": NAME} or {"image": BASE, "steps": {...}}. */
static int build_args(struct cli *cli, json_t **ret, struct err *e)
{
	const char *operand = cli->args->operands[0], *name = args_get(cli->args, "name");
	auto_json json_t *steps = NULL;
	auto_free char *base = NULL;

	if (steps_is_file(operand)) {
		if (steps_from_file(operand, &steps, &base, e) < 0)
			return -1;
	} else if (has_steps(cli)) {
		steps = json_object();
		if (!steps)
			return err_oom(e);
		if (!name)
			return args_fail(e, "--name is missing: what the new image is called");
	}
	if (steps && steps_from_options(cli, steps, e) < 0)
		return -1;
	if (name && json_object_set_new(steps, "name", json_string(name)) < 0)
		return args_fail(e, "--name: not UTF-8");
	*ret = json_pack("{s:s, s:O*}", "image", base ? base : operand, "steps", steps);
	return *ret ? 0 : args_fail(e, "the image's name is not UTF-8");
}

static int image_build_run(struct cli *cli, struct err *e)
{
	auto_json json_t *result = NULL;
	json_t *args;

	if (build_args(cli, &args, e) < 0)
		return -1;
	if (args_has(cli->args, "rebuild"))
		json_object_set_new(args, "rebuild", json_true());
	if (cli_request(cli, "image.build", args, &result, e) < 0)
		return -1;
	if (*get_str(result, "password"))
		cli_note(cli, "root's password in it is %s", get_str(result, "password"));
	return image_print_made(cli, result, e);
}

static const struct opt build_opts[] = {
	{0, "rebuild", NULL, "build it even if it is there"},
	{'n', "name", "NAME", "the new image, made of IMAGE by the steps that follow"},
	{0, "copy", "FILE:PATH", "copy a file or directory of this machine into it"},
	{0, "packages", "NAMES", "install Debian packages, with commas between them"},
	{0, "run", "FILE", "run a script of this machine in it, as root"},
	{0, "disk-gb", "N", "make its disk at least this large"},
	{0},
};
const struct cmd cmd_image_build = {
	.name = "image build",
	.synopsis = "IMAGE|FILE",
	.summary = "build an image that moat knows, or one of your own out of another",
	.about =
		"tiny (for tests), debian12, debian13, proxmox8, proxmox9 (servers),\n"
		"and whatever `moat image pull` can get. With\n"
		"--name, a new image: IMAGE with files, packages and scripts added, in this "
		"order,\n"
		"without booting it. FILE (.yaml) says the same as these options: base, name, "
		"copy,\n"
		"packages, run, disk_gb. Nothing needs root. An interrupted build leaves nothing;\n"
		"two builds of one image share the work, and one that was made before is there at "
		"once.",
	.examples = "  moat image build debian12\n"
		    "  moat image build debian12 --name mine --packages nmap,tmux --run setup.sh\n"
		    "  moat image build mine.yaml",
	.opts = build_opts,
	.min = 1,
	.max = 1,
	.operand = OPERAND_IMAGE,
	.flags = CMD_JSON,
	.run = image_build_run,
};
