#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/outfile.h"
#include "util/auto.h"
#include "util/str.h"

struct shot {
	struct outfile *file; /* NULL: stdout */
};

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

	if (!args)
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
		    "  moat screenshot 3f9c - | feh -",
	.opts = screenshot_opts,
	.min = 1,
	.max = 2,
	.operand = OPERAND_SANDBOX,
	.flags = CMD_JSON,
	.run = cmd_screenshot_run,
};
