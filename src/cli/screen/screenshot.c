#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/outfile.h"
#include "util/auto.h"
#include "util/str.h"

struct shot {
	struct outfile *file; /* NULL: stdout */
};

/* Reads "X0,Y0,X1,Y1". */
static int add_region(const struct args *a, json_t *args, struct err *e)
{
	const char *text = args_get(a, "region");
	unsigned x0, y0, x1, y1;
	int end = -1;

	if (!text)
		return 0;
	if (sscanf(text, "%5u,%5u,%5u,%5u%n", &x0, &y0, &x1, &y1, &end) != 4 || text[end])
		return args_fail(e, "--region: is no X0,Y0,X1,Y1: %s", text);
	return json_object_set_new(args, "region",
		       json_pack("[i, i, i, i]", (int)x0, (int)y0, (int)x1, (int)y1)) < 0
		       ? err_oom(e)
		       : 0;
}

static int add_options(const struct args *a, json_t *args, struct err *e)
{
	auto_json json_t *size = NULL, *of = NULL;
	double settle = 0;

	if (args_size(a, "size", &size, e) < 0 || args_size(a, "of", &of, e) < 0 ||
		args_seconds(a, "settle", &settle, e) < 0 || add_region(a, args, e) < 0)
		return -1;
	if ((size && json_object_set(args, "size", size) < 0) ||
		(of && json_object_set(args, "of", of) < 0) ||
		(settle > 0 && json_object_set_new(args, "settle", json_real(settle)) < 0))
		return err_oom(e);
	return 0;
}

static int take_piece(void *arg, enum call_stream stream, struct bytes data, struct err *e)
{
	struct shot *shot = arg;

	(void)stream;
	if (!shot->file)
		return write_out(STDOUT_FILENO, data, e);
	if (shot->file->fd < 0 && outfile_open(shot->file, e) < 0)
		return -1;
	return outfile_write(shot->file, data, e);
}

static int fetch(struct cli *cli, json_t *args, const char *path, struct err *e)
{
	auto_outfile struct outfile file = {
		.fd = -1, .dir_fd = AT_FDCWD, .name = path, .trusted = true};
	struct shot shot = {.file = strcmp(path, "-") == 0 ? NULL : &file};
	struct call call = {.op = "screenshot", .args = args, .data = take_piece, .arg = &shot};

	if (cli_call(cli, &call, NULL, e) < 0)
		return -1;
	if (!shot.file)
		return 0;
	if (file.fd < 0)
		return err_set(e, ERR_INTERNAL, "the daemon sent no picture");
	return outfile_finish(&file, 0666, e);
}

static int cmd_screenshot_run(struct cli *cli, struct err *e)
{
	const struct args *a = cli->args;
	auto_json json_t *args = cli_target(cli, a->operands[0], e), *doc = NULL;
	auto_free char *path = NULL;

	if (!args || add_options(a, args, e) < 0)
		return -1;
	if (a->n_operands > 1 ? str_dup(a->operands[1], &path, e) < 0
			      : str_printf(&path, e, "moat-%s.png", a->operands[0]) < 0)
		return -1;
	if (a->n_operands < 2 && strchr(path, '/'))
		return args_fail(e, "\"%s\" is not a sandbox", a->operands[0]);
	if (strcmp(path, "-") == 0 && (cli->screen.out_tty || cli->json))
		return args_fail(
			e, "the picture cannot go to a terminal or into JSON: name a file");
	if (fetch(cli, args, path, e) < 0)
		return -1;
	if (strcmp(path, "-") == 0)
		return EXIT_OK;
	if (!cli->json) {
		puts(path);
		return EXIT_OK;
	}
	if (json_make(&doc, e, "{s:o}", "path", json_text(path)) < 0)
		return -1;
	return print_json(&cli->screen, doc, e);
}

static const struct opt screenshot_opts[] = {
	{0, "vm", "NAME", "of this VM of the sandbox"},
	{0, "size", "WxH", "stretched to this size (default: as the screen is)"},
	{0, "region", "X0,Y0,X1,Y1", "this part of it alone"},
	{0, "of", "WxH", "the region is in a picture of this size (default: the last one)"},
	{0, "settle", "SECONDS", "wait until it no longer changes, so long at most"},
	{0},
};

const struct cmd cmd_screenshot = {
	.name = "screenshot",
	.group = "Sandboxes:",
	.synopsis = "SANDBOX [FILE]",
	.summary = "save a VM's screen as PNG, and print the file's name",
	.about = "FILE is moat-SANDBOX.png unless given; - is standard output. The VM needs a\n"
		 "graphics card (`vga: std` in the spec).",
	.examples = "  moat screenshot 3f9c desktop.png\n"
		    "  moat screenshot --size 1366x768 --settle 3 3f9c\n"
		    "  moat screenshot 3f9c - | feh -",
	.opts = screenshot_opts,
	.min = 1,
	.max = 2,
	.operand = OPERAND_SANDBOX,
	.flags = CMD_JSON,
	.run = cmd_screenshot_run,
};
