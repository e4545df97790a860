#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
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

/* Whether a directory with a Dockerfile is meant, and no image. */
static bool is_container(const struct cli *cli)
{
	const char *operand = cli->args->operands[0];

	if (args_has(cli->args, "file") || args_has(cli->args, "target") ||
		args_has(cli->args, "build-arg"))
		return true;
	return operand && !steps_is_file(operand) &&
	       (strchr(operand, '/') || strcmp(operand, ".") == 0 || strcmp(operand, "..") == 0);
}

/* Adds an absolute path: the daemon has another working directory. */
static int add_path(json_t *to, const char *name, const char *path, struct err *e)
{
	auto_free char *full = realpath(path, NULL);

	if (!full)
		return err_sys(e, errno, "%s", path);
	return json_object_set_new(to, name, json_string(full)) < 0
		       ? args_fail(e, "%s: not UTF-8", path)
		       : 0;
}

/* Adds NAME=VALUE, or NAME with the value that it has in our environment. */
static int add_build_arg(json_t *to, const char *text, struct err *e)
{
	auto_free char *name = strndup(text, strcspn(text, "="));
	const char *value = strchr(text, '=');

	if (!name)
		return err_oom(e);
	value = value ? value + 1 : getenv(name);
	if (!*name || !value)
		return args_fail(e, "--build-arg: \"%s\" is not NAME=VALUE", text);
	return json_object_set_new(to, name, json_string(value)) < 0
		       ? args_fail(e, "--build-arg: not UTF-8")
		       : 0;
}

static int add_dockerfile(struct cli *cli, json_t *to, struct err *e)
{
	const char *dir = cli->args->operands[0], *file = args_get(cli->args, "file"), *value;
	const char *target = args_get(cli->args, "target");
	auto_free char *copy = file ? strdup(file) : NULL;
	json_t *args = json_object();
	unsigned at = 0;

	if (!args || json_object_set_new(to, "args", args) < 0 || (file && !copy))
		return err_oom(e);
	while ((value = args_each(cli->args, "build-arg", &at)))
		if (add_build_arg(args, value, e) < 0)
			return -1;
	if (target && json_object_set_new(to, "target", json_string(target)) < 0)
		return args_fail(e, "--target: not UTF-8");
	if (file && add_path(to, "file", file, e) < 0)
		return -1;
	return add_path(to, "context", dir ? dir : file ? dirname(copy) : ".", e);
}

/* *ret: {"dockerfile": {...}, "name": NAME}. */
static int container_args(struct cli *cli, json_t **ret, struct err *e)
{
	auto_json json_t *dockerfile = json_object();

	if (!dockerfile)
		return err_oom(e);
	if (args_has(cli->args, "copy") || args_has(cli->args, "packages") ||
		args_has(cli->args, "run") || args_has(cli->args, "disk-gb"))
		return args_fail(e, "--copy, --packages, --run and --disk-gb are not for "
				    "Dockerfiles, which say "
				    "it themselves");
	if (add_dockerfile(cli, dockerfile, e) < 0)
		return -1;
	*ret = json_pack(
		"{s:O, s:s*}", "dockerfile", dockerfile, "name", args_get(cli->args, "name"));
	return *ret ? 0 : args_fail(e, "--name: not UTF-8");
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
	json_t *args = NULL;

	if (!is_container(cli) && !cli->args->operands[0])
		return args_fail(
			e, "what is to be built? an image, or a directory with a Dockerfile");
	if (is_container(cli) ? container_args(cli, &args, e) < 0 : build_args(cli, &args, e) < 0)
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
	{'f', "file", "FILE", "build a container image by this Dockerfile"},
	{0, "target", "STAGE", "build the Dockerfile up to that stage"},
	{0, "build-arg", "NAME=VALUE", "a value for an ARG of the Dockerfile"},
	{0},
};
const struct cmd cmd_image_build = {
	.name = "image build",
	.synopsis = "IMAGE|FILE|DIR",
	.summary = "build an image that moat knows, one of your own, or by a Dockerfile",
	.about =
		"tiny (for tests), debian12, debian13, desktop, proxmox8, proxmox9 (servers),\n"
		"and whatever `moat image pull` can get. With\n"
		"--name, a new image: IMAGE with files, packages and scripts added, in this "
		"order,\n"
		"without booting it. FILE (.yaml) says the same as these options: base, name, "
		"copy,\n"
		"packages, run, disk_gb. Nothing needs root. An interrupted build leaves nothing;\n"
		"two builds of one image share the work, and one that was made before is there at "
		"once.\n"
		"DIR, with a slash in it or \".\", is a directory with a Dockerfile.",
	.examples = "  moat image build debian12\n"
		    "  moat image build debian12 --name mine --packages nmap,tmux --run setup.sh\n"
		    "  moat image build mine.yaml\n"
		    "  moat image build ./lab --name lab --build-arg VERSION=2",
	.opts = build_opts,
	.max = 1,
	.operand = OPERAND_IMAGE,
	.flags = CMD_JSON,
	.run = image_build_run,
};
