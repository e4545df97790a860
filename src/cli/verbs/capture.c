#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/terminal/signals.h"
#include "util/auto.h"

static int take_piece(void *arg, enum call_stream stream, struct bytes data, struct err *e)
{
	(void)stream;
	return write_out(*(int *)arg, data, e);
}

static int cmd_capture_run(struct cli *cli, struct err *e)
{
	const struct args *a = cli->args;
	auto_json json_t *args = cli_target(cli, a->operands[0], e);
	const char *path = args_get(a, "output");
	auto_fd int file = -1;
	int out = STDOUT_FILENO;
	struct call call = {.op = "net.capture", .args = args, .data = take_piece, .arg = &out};

	if (!args)
		return -1;
	if (a->n_operands > 1 && json_object_set_new(args, "vnet", json_string(a->operands[1])) < 0)
		return args_fail(e, "the network's name is not UTF-8: %s", a->operands[1]);
	if (path && strcmp(path, "-") != 0) {
		file = out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
		if (file < 0)
			return err_sys(e, errno, "%s", path);
	} else if (cli->screen.out_tty) {
		return args_fail(e, "a capture does not belong on a terminal: -o FILE, or a pipe");
	}
	if (cli_call(cli, &call, NULL, e) == 0)
		return EXIT_OK;
	/* A signal is the normal end: the file holds whole frames. */
	return signals_seen() ? EXIT_OK : -1;
}

static const struct opt capture_opts[] = {
	{'o', "output", "FILE", "write there instead of to standard output"},
	{0},
};

const struct cmd cmd_capture = {
	.name = "capture",
	.group = "Networks:",
	.synopsis = "SANDBOX [VNET]",
	.summary = "write what goes over a sandbox's networks, as pcap, until interrupted",
	.about = "Every frame is there once, as its sender sent it, and also those that are then\n"
		 "refused. VNET is the alias of one network; without it, all of them. To have all\n"
		 "from the first frame on, give the network a `capture` in the spec.",
	.examples = "  moat capture 3f9c | wireshark -k -i -\n"
		    "  moat capture -o lan.pcap 3f9c lan",
	.opts = capture_opts,
	.min = 1,
	.max = 2,
	.operand = OPERAND_SANDBOX,
	.run = cmd_capture_run,
};
