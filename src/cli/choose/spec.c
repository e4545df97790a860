#include "cli/choose/spec.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/choose/compose.h"
#include "cli/stream.h"
#include "compose/compose.h"
#include "spec/yaml.h"
#include "util/auto.h"
#include "util/str.h"
#include "util/system/io.h"

#define DEFAULT_SPEC "moat.yaml"
#define BLANK        "blank" /* the image of an empty disk, for installers */
#define BLANK_GB     20

static const char *const only_images[] = {"ram", "vcpus", "disk-gb", "cdrom"};

static bool looks_like_file(const char *s)
{
	struct stat st;

	return strchr(s, '/') || str_ends(s, ".yaml") || str_ends(s, ".yml") ||
	       str_ends(s, ".json") || (stat(s, &st) == 0 && S_ISREG(st.st_mode));
}

static int check_only_images(struct cli *cli, const char *path, struct err *e)
{
	for (unsigned i = 0; i < ARRAY_LEN(only_images); i++)
		if (args_has(cli->args, only_images[i]))
			return args_fail(
				e, "--%s is for images; set it in %s", only_images[i], path);
	return 0;
}

/* Whether it is a compose file under another name than those have. */
static bool has_services(const json_t *j)
{
	return json_object_get(j, "services") && !json_object_get(j, "vms");
}

static int spec_from_file(
	struct cli *cli, const char *path, json_t **ret, json_t **ret_told, struct err *e)
{
	auto_free char *text = NULL;
	auto_json json_t *j = NULL;
	bool input = strcmp(path, "-") == 0;
	size_t len = 0;
	int failed;

	if (check_only_images(cli, path, e) < 0)
		return -1;
	if (!input && (compose_is_dockerfile(path) || compose_is_compose_file(path)))
		return compose_ask(cli, path, NULL, ret, ret_told, e);
	failed = input ? read_stdin(SPEC_TEXT_MAX, &text, &len, e)
		       : file_read(path, SPEC_TEXT_MAX, &text, &len, e);
	if (failed < 0)
		return -1;
	if (spec_text_to_json((struct bytes){(uint8_t *)text, len}, &j, e) < 0)
		return err_wrap(e, "%s", path);
	if (has_services(j))
		return compose_ask(cli, input ? NULL : path, input ? j : NULL, ret, ret_told, e);
	*ret = take_ptr(&j);
	return 0;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Whether it is called like Vagrantfile, Vagrantfile.multi or lab.vagrantfile. */
static bool is_vagrantfile(const char *path)
{
	const char *name = base_name(path);

	return str_starts(name, "Vagrantfile") || str_ends(name, ".vagrantfile") ||
	       str_ends(name, ".Vagrantfile");
}

/* Whether it is a directory with a Vagrantfile. A bare word is an image's name. */
static bool is_vagrant_dir(const char *path)
{
	auto_free char *file = NULL;
	struct err none;

	return (strchr(path, '/') || strcmp(path, ".") == 0 || strcmp(path, "..") == 0) &&
	       str_printf(&file, &none, "%s/Vagrantfile", path) == 0 && path_exists(file);
}

/* path: of a Vagrantfile, or of a directory that has one. Sends an absolute path: the daemon has
 * another working directory. */
static int spec_from_vagrantfile(struct cli *cli, const char *path, json_t **ret, struct err *e)
{
	auto_free char *full = realpath(path, NULL);

	if (check_only_images(cli, path, e) < 0)
		return -1;
	if (!full)
		return err_sys(e, errno, "%s", path);
	return json_make(ret, e, "{s:s, s:[{}], s:{s:s}}", "driver", "vagrant", "vms", "native",
		is_vagrant_dir(path) ? "vagrant_dir" : "vagrantfile", full);
}

static int set_number(json_t *vm, const char *member, uint64_t value, struct err *e)
{
	if (value && json_object_set_new(vm, member, json_integer((json_int_t)value)) < 0)
		return err_oom(e);
	return 0;
}

/* Adds a CD and, where the disk is empty, what an installer needs. Sends an absolute path: the
 * daemon has another working directory. */
static int add_cdrom(struct cli *cli, json_t *vm, bool blank, struct err *e)
{
	const char *file = args_get(cli->args, "cdrom");
	auto_free char *full = realpath(file, NULL);

	if (!full)
		return err_sys(e, errno, "%s", file);
	if (json_object_set_new(vm, "cdrom", json_string(full)) < 0)
		return args_fail(e, "--cdrom: not UTF-8");
	if (blank && (json_object_set_new(vm, "warm", json_false()) < 0 ||
			     json_object_set_new(vm, "vga", json_string("std")) < 0 ||
			     json_object_set_new(vm, "tablet", json_true()) < 0))
		return err_oom(e);
	return 0;
}

static int spec_from_image(struct cli *cli, const char *image, json_t **ret, struct err *e)
{
	bool blank = strcmp(image, BLANK) == 0;
	uint64_t ram = 0, vcpus = 0, disk = blank ? BLANK_GB : 0;
	auto_json json_t *vm = NULL;

	if (args_megabytes(cli->args, "ram", 1u << 22, &ram, e) < 0 ||
		args_number(cli->args, "vcpus", 512, &vcpus, e) < 0)
		return -1;
	/* `run` has neither of these. */
	if (args_has(cli->args, "disk-gb") &&
		args_number(cli->args, "disk-gb", 65536, &disk, e) < 0)
		return -1;
	vm = json_pack("{s:s, s:{s:s}}", "name", "default", "source", "image", image);
	if (!vm)
		return args_fail(e, "the image's name is not UTF-8");
	if (set_number(vm, "ram_mb", ram, e) < 0 || set_number(vm, "vcpus", vcpus, e) < 0 ||
		set_number(vm, "disk_gb", disk, e) < 0)
		return -1;
	if (args_has(cli->args, "cdrom") && add_cdrom(cli, vm, blank, e) < 0)
		return -1;
	return json_make(ret, e, "{s:[O]}", "vms", vm);
}

/* Without an operand, `up` takes the first of these files that exists. */
static const char *file_here(void)
{
	static const char *const names[] = {DEFAULT_SPEC, "compose.yaml", "compose.yml",
		"docker-compose.yaml", "docker-compose.yml", "Dockerfile"};

	for (unsigned i = 0; i < ARRAY_LEN(names); i++)
		if (path_exists(names[i]))
			return names[i];
	return NULL;
}

int choose_spec(struct cli *cli, json_t **ret, struct err *e)
{
	auto_json json_t *told = NULL;

	return choose_spec_told(cli, ret, &told, e);
}

int choose_spec_told(struct cli *cli, json_t **ret, json_t **ret_told, struct err *e)
{
	const char *operand = cli->args->n_operands ? cli->args->operands[0] : NULL;
	const char *image = args_has(cli->args, "image") ? args_get(cli->args, "image") : NULL;

	if (operand && image)
		return args_fail(e, "give a spec or --image, not both");
	if (image)
		return spec_from_image(cli, image, ret, e);
	if (operand && (is_vagrantfile(operand) || is_vagrant_dir(operand)))
		return spec_from_vagrantfile(cli, operand, ret, e);
	if (operand && (strcmp(operand, "-") == 0 || looks_like_file(operand)))
		return spec_from_file(cli, operand, ret, ret_told, e);
	if (operand)
		return spec_from_image(cli, operand, ret, e);
	if (args_has(cli->args, "cdrom"))
		return spec_from_image(cli, BLANK, ret, e);
	if (file_here())
		return spec_from_file(cli, file_here(), ret, ret_told, e);
	return args_fail(e,
		"what should be made? There is no ./" DEFAULT_SPEC
		" here, nor ./compose.yaml. Try\n"
		"moat up debian12         one VM of an image (see `moat image ls`)\n"
		"moat up lab.yaml         what a spec file describes (see `moat schema`)\n"
		"moat up compose.yaml     the services of a compose file (or a Dockerfile)\n"
		"moat up Vagrantfile      what a Vagrantfile describes");
}
