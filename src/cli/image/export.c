#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/format.h"
#include "cli/outfile.h"
#include "cli/terminal/table.h"
#include "util/auto.h"
#include "util/str.h"

/* The absolute path of the file: the daemon is in another directory. */
static int absolute(const char *file, char **ret, struct err *e)
{
	auto_free char *here = NULL;

	if (file[0] == '/')
		return str_dup(file, ret, e);
	here = realpath(".", NULL);
	return here ? str_printf(ret, e, "%s/%s", here, file) : err_sys(e, errno, "%s", file);
}

static int image_export_run(struct cli *cli, struct err *e)
{
	const char *image = cli->args->operands[0], *format = args_get(cli->args, "format");
	const char *given = args_get(cli->args, "output");
	auto_free char *name = NULL, *path = NULL;
	auto_json json_t *result = NULL;
	json_t *args;
	char size[24];

	if (!format)
		format = "qcow2";
	if (given ? str_dup(given, &name, e) < 0 : str_printf(&name, e, "%s.%s", image, format) < 0)
		return -1;
	if (absolute(name, &path, e) < 0)
		return -1;
	args = json_pack("{s:s, s:s, s:s}", "image", image, "format", format, "path", path);
	if (!args)
		return args_fail(e, "the name is not UTF-8");
	if (cli_request(cli, "image.export", args, &result, e) < 0)
		return -1;
	/* The daemon made it for the user alone, for it does not know the user's umask. */
	if (chmod(path, 0666 & ~current_umask()) < 0)
		return err_sys(e, errno, "%s", path);
	if (cli->json)
		return print_json(&cli->screen, result, e);
	puts(name);
	text_size(get_num(result, "size"), size);
	cli_note(cli, "%s", size);
	return EXIT_OK;
}

static const struct opt export_opts[] = {
	{'f', "format", "FORMAT",
		"qcow2 (default), raw, or ova: for VirtualBox, VMware, Proxmox VE"},
	{'o', "output", "FILE", "the file (default: IMAGE.FORMAT)"},
	{0},
};
const struct cmd cmd_image_export = {
	.name = "image export",
	.synopsis = "IMAGE",
	.summary = "write an image's disk into a file, and print the file's name",
	.about = "A file that is there is replaced when the new one is whole.",
	.examples = "  moat image export --format ova debian12\n"
		    "  moat image export -f raw -o /srv/disk.raw mine",
	.opts = export_opts,
	.min = 1,
	.max = 1,
	.operand = OPERAND_IMAGE,
	.flags = CMD_JSON,
	.run = image_export_run,
};
