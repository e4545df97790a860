#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/image/made.h"
#include "cli/image/pull.h"
#include "util/auto.h"

/* The name for an imported file, unless --name is given: disk.qcow2 becomes "disk". */
static char *name_of_file(const char *path)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	size_t len = strcspn(base, ".");

	return strndup(base, len ? len : strlen(base));
}

static int image_import_run(struct cli *cli, struct err *e)
{
	static const struct {
		const char *opt, *arg;
	} more[] = {{"user", "user"}, {"os-type", "os_type"}, {"firmware", "firmware"}};
	const char *file = cli->args->operands[0], *given = args_get(cli->args, "name");
	auto_free char *path = realpath(file, NULL);
	auto_free char *name = given ? strdup(given) : name_of_file(file);
	auto_json json_t *result = NULL;
	json_t *args;

	if (strstr(file, "://"))
		return image_pull(cli, file, e);
	if (args_has(cli->args, "sha256"))
		return args_fail(e, "--sha256 is for URLs");
	if (!path)
		return err_sys(e, errno, "%s", file);
	if (!name)
		return err_oom(e);
	args = json_pack("{s:s, s:s}", "path", path, "name", name);
	for (unsigned i = 0; args && i < ARRAY_LEN(more); i++) {
		const char *value = args_get(cli->args, more[i].opt);

		if (value && json_object_set_new(args, more[i].arg, json_string(value)) < 0) {
			json_decref(args);
			args = NULL;
		}
	}
	if (!args)
		return args_fail(e, "the name is not UTF-8");
	if (cli_request(cli, "image.import", args, &result, e) < 0)
		return -1;
	return image_print_made(cli, result, e);
}

static const struct opt import_opts[] = {
	{'n', "name", "NAME", "name of the image (default: the file's, up to its first dot)"},
	{'u', "user", "USER", "the user that commands run as by default"},
	{0, "os-type", "TYPE", "what runs in it: l26, win11, other, ..."},
	{0, "firmware", "KIND", "bios or uefi"},
	{0, "sha256", "HEX", "of a URL: what the file's checksum must be"},
	{0, "rebuild", NULL, NULL},
	{0},
};
const struct cmd cmd_image_import = {
	.name = "image import",
	.synopsis = "FILE|DIR|URL",
	.summary = "make an image from a disk file, or of a container image in a file",
	.about = "Disks: qcow2, raw, vmdk, vdi, vhdx, ova; they may be compressed by gzip, xz or "
		 "zstd.\n"
		 "The system in it needs the QEMU guest agent. Container images: a tar file of "
		 "`docker\n"
		 "save`, or an OCI layout, as a tar file or a directory. What is imported is not "
		 "needed\n"
		 "afterwards.",
	.examples = "  moat image import --name kali --user kali kali-linux.qcow2\n"
		    "  moat image import --name lab lab-image.tar",
	.opts = import_opts,
	.min = 1,
	.max = 1,
	.operand = OPERAND_FILE,
	.flags = CMD_JSON,
	.run = image_import_run,
};
