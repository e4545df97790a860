#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/access.h"
#include "cli/cli.h"
#include "cli/up.h"
#include "spec/yaml.h"
#include "util/auto.h"
#include "util/io.h"
#include "util/str.h"

#define DEFAULT_SPEC "moat.yaml"

static bool looks_like_file(const char *s)
{
	struct stat st;

	return strchr(s, '/') || str_ends(s, ".yaml") || str_ends(s, ".yml") ||
	       str_ends(s, ".json") || (stat(s, &st) == 0 && S_ISREG(st.st_mode));
}

static int read_stdin(char **ret, size_t *ret_len, struct err *e)
{
	auto_buf struct buf b = {0};

	for (;;) {
		uint8_t *room = buf_room(&b, 16384);
		ssize_t got = room ? read(STDIN_FILENO, room, 16384) : -1;

		if (!room)
			return err_oom(e);
		if (got < 0)
			return err_sys(e, errno, "standard input");
		if (got == 0)
			break;
		buf_grew(&b, (size_t)got);
		if (b.len > SPEC_TEXT_MAX)
			return err_set(e, ERR_LIMIT, "a spec of more than %d bytes", SPEC_TEXT_MAX);
	}
	*ret_len = b.len;
	*ret = buf_take_str(&b);
	return *ret ? 0 : err_oom(e);
}

static int spec_from_file(struct cli *cli, const char *path, json_t **ret, struct err *e)
{
	static const char *const only_images[] = {"ram", "vcpus"};
	auto_free char *text = NULL;
	size_t len = 0;
	int failed;

	for (unsigned i = 0; i < ARRAY_LEN(only_images); i++)
		if (args_has(cli->args, only_images[i]))
			return args_fail(e, "--%s: %s says that already", only_images[i], path);
	failed = strcmp(path, "-") == 0 ? read_stdin(&text, &len, e)
					: file_read(path, SPEC_TEXT_MAX, &text, &len, e);
	if (failed < 0)
		return -1;
	if (spec_text_to_json((struct bytes){(uint8_t *)text, len}, ret, e) < 0)
		return err_wrap(e, "%s", path);
	return 0;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Vagrantfile, Vagrantfile.multi, lab.vagrantfile */
static bool is_vagrantfile(const char *path)
{
	const char *name = base_name(path);

	return str_starts(name, "Vagrantfile") || str_ends(name, ".vagrantfile") ||
	       str_ends(name, ".Vagrantfile");
}

/* The daemon has another working directory. */
static int spec_from_vagrantfile(struct cli *cli, const char *path, json_t **ret, struct err *e)
{
	static const char *const only_images[] = {"ram", "vcpus"};
	auto_free char *full = realpath(path, NULL);

	for (unsigned i = 0; i < ARRAY_LEN(only_images); i++)
		if (args_has(cli->args, only_images[i]))
			return args_fail(e, "--%s: %s says that already", only_images[i], path);
	if (!full)
		return err_sys(e, errno, "%s", path);
	return json_make(ret, e, "{s:s, s:[{}], s:{s:s}}", "driver", "vagrant", "vms", "native",
		"vagrantfile", full);
}

static int spec_from_image(struct cli *cli, const char *image, json_t **ret, struct err *e)
{
	uint64_t ram = 0, vcpus = 0;
	json_t *vm;

	if (args_number(cli->args, "ram", 1u << 22, &ram, e) < 0 ||
		args_number(cli->args, "vcpus", 512, &vcpus, e) < 0)
		return -1;
	vm = json_pack("{s:s, s:{s:s}}", "name", "default", "source", "image", image);
	if (!vm)
		return args_fail(e, "the image's name is not UTF-8");
	if (ram)
		json_object_set_new(vm, "ram_mb", json_integer((json_int_t)ram));
	if (vcpus)
		json_object_set_new(vm, "vcpus", json_integer((json_int_t)vcpus));
	return json_make(ret, e, "{s:[o]}", "vms", vm);
}

int up_choose_spec(struct cli *cli, json_t **ret, struct err *e)
{
	const char *operand = cli->args->n_operands ? cli->args->operands[0] : NULL;
	const char *image = args_get(cli->args, "image");

	if (operand && image)
		return args_fail(e, "give a spec or --image, not both");
	if (image)
		return spec_from_image(cli, image, ret, e);
	if (operand && is_vagrantfile(operand))
		return spec_from_vagrantfile(cli, operand, ret, e);
	if (operand && (strcmp(operand, "-") == 0 || looks_like_file(operand)))
		return spec_from_file(cli, operand, ret, e);
	if (operand)
		return spec_from_image(cli, operand, ret, e);
	if (path_exists(DEFAULT_SPEC))
		return spec_from_file(cli, DEFAULT_SPEC, ret, e);
	return args_fail(e,
		"what should be made? There is no ./" DEFAULT_SPEC " here. Try\n"
		"moat up debian12         one VM of an image (see `moat image ls`)\n"
		"moat up lab.yaml         what a spec file describes (see `moat schema`)\n"
		"moat up Vagrantfile      what a Vagrantfile describes");
}

/* The image that a VM of the spec starts from, if it is one that moat can build. */
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
		if (cli_ask(cli, "image.inspect", json_pack("{s:s}", "image", image), NULL, e) == 0)
			continue;
		if (e->kind != ERR_NOT_FOUND)
			return -1;
		if (cli_ask(cli, "image.build", json_pack("{s:s}", "image", image), NULL, e) < 0)
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
	/* Not detached yet: should we be ended before the very end, nothing is left. */
	if (json_make(ret, e, "{s:O, s:O, s:b, s:b}", "spec", spec, "labels", labels, "detach", 0,
		    "wait", !args_has(cli->args, "no-wait")) < 0)
		return -1;
	return access_add_for(*ret, get_str(spec, "driver"), e);
}

/* Why it took as long as it did, unless that was asked for. */
static void tell_cold(struct cli *cli, const json_t *spec, const json_t *vms)
{
	const json_t *asked = json_object_get(spec, "vms"), *vm;
	size_t i;

	json_array_foreach(vms, i, vm)
	{
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
	if (cli_ask(cli, "rm", json_pack("{s:[s]}", "sandboxes", id), NULL, e) < 0 &&
		e->kind != ERR_NOT_FOUND)
		return -1;
	return EXIT_OK;
}

static int check_only(struct cli *cli, json_t *spec, struct err *e)
{
	auto_json json_t *result = NULL;

	if (cli_ask(cli, "validate", json_pack("{s:O}", "spec", spec), &result, e) < 0)
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

	if (up_choose_spec(cli, &spec, e) < 0 ||
		args_seconds(cli->args, "timeout", &call.timeout, e))
		return -1;
	if (args_has(cli->args, "check"))
		return check_only(cli, spec, e);
	if (up_args(cli, spec, &args, e) < 0)
		return -1;
	if (args_has(cli->args, "build") && build_missing(cli, spec, e) < 0)
		return -1;
	call.args = args;
	if (cli_run(cli, &call, &result, e) < 0)
		return call.timeout > 0 && e->kind == ERR_TIMEOUT
			       ? err_wrap(e, "not up after %g s (--timeout)", call.timeout)
			       : -1;
	id = get_str(result, "sandbox");
	tell_cold(cli, spec, json_object_get(result, "vms"));
	if (cli->json && print_json(&cli->screen, result, e) < 0)
		return -1;
	if (!cli->json)
		puts(id);
	/* If nobody can be told the id, the lease must still be ours to drop. */
	if (check_stdout(e) < 0)
		return -1;
	if (args_has(cli->args, "attach"))
		return hold(cli, id, e);
	return cli_ask(cli, "detach", json_pack("{s:s}", "sandbox", id), NULL, e);
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
