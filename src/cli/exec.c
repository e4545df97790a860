#include "cli/exec.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/terminal/signals.h"
#include "cli/stream.h"
#include "util/auto.h"

enum { NOT_FOUND = 127 }; /* exit code of a command that does not exist */

/* Adds the size of a file on stdin: the driver may have a faster way to bring a whole file to the
 * guest. */
static int add_input_size(struct exec_req *req, struct err *e)
{
	off_t at = lseek(STDIN_FILENO, 0, SEEK_CUR);
	struct stat st;

	if (!req->input || req->tty || at < 0 || fstat(STDIN_FILENO, &st) < 0 ||
		!S_ISREG(st.st_mode) || st.st_size <= at)
		return 0;
	return json_object_set_new(req->args, "input_size", json_integer(st.st_size - at)) < 0
		       ? err_oom(e)
		       : 0;
}

/* Adds our terminal's size and type, for the programs in the guest. */
static int add_terminal(struct exec_req *req, struct err *e)
{
	const char *term = getenv("TERM");
	unsigned rows, cols;

	tty_size(&rows, &cols);
	if (json_object_set_new(req->args, "tty",
		    json_pack("{s:i, s:i}", "rows", (int)rows, "cols", (int)cols)) < 0)
		return err_oom(e);
	if (!req->env)
		req->env = json_object();
	if (term && !json_object_get(req->env, "TERM"))
		json_object_set_new(req->env, "TERM", json_string(term));
	return 0;
}

static int complete_args(struct cli *cli, struct exec_req *req, struct err *e)
{
	if (req->tty && add_terminal(req, e) < 0)
		return -1;
	if (req->env && json_object_size(req->env) &&
		json_object_set(req->args, "env", req->env) < 0)
		return err_oom(e);
	if (req->timeout > 0 &&
		json_object_set_new(req->args, "timeout", json_real(req->timeout)) < 0)
		return err_oom(e);
	if (cli->json && json_object_set_new(req->args, "capture", json_true()) < 0)
		return err_oom(e);
	return 0;
}

/* Prints a note for each stream of which the daemon kept only a part. */
static void note_truncated(struct cli *cli, const struct stream *s, const json_t *result)
{
	static const char *const names[] = {"stdout", "stderr"};
	static const char *const members[] = {"stdout_bytes", "stderr_bytes"};

	for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
		double wrote = get_num(result, members[i]);
		char had[24], kept[24];

		if (wrote <= (double)s->kept[i].len)
			continue;
		text_size(wrote, had);
		text_size((double)s->kept[i].len, kept);
		cli_note(cli, "%s is cut: %s of %s are in the document", names[i], kept, had);
	}
}

static int print_result(struct cli *cli, struct stream *s, json_t *result, struct err *e)
{
	if (stream_to_json(&s->kept[0], result, "stdout", e) < 0 ||
		stream_to_json(&s->kept[1], result, "stderr", e) < 0)
		return -1;
	return print_json(&cli->screen, result, e);
}

/* Prints why the command failed, if its exit code does not tell; returns the code. */
static int explain(struct cli *cli, const struct exec_req *req, const json_t *result)
{
	const json_t *failure = json_object_get(result, "failure");
	int code = (int)get_num(result, "exit_code");

	if (failure)
		cli_note(cli, "%s", get_str(failure, "message"));
	else if (json_is_true(json_object_get(result, "timed_out")))
		cli_note(cli, "the command was killed after %g second%s", req->timeout,
			req->timeout == 1 ? "" : "s");
	return code >= 0 && code <= 255 ? code : EXIT_FAILED;
}

static int run(struct cli *cli, struct exec_req *req, struct err *e)
{
	auto_json json_t *result = NULL;
	auto_stream struct stream s = {.cli = cli, .raw = req->tty, .keep = cli->json};
	struct call call = {.op = "exec",
		.args = req->args,
		.stream_input = req->input,
		.input_fd = STDIN_FILENO,
		.tty = req->tty,
		.data = stream_data,
		.arg = &s};
	int failed;

	if (complete_args(cli, req, e) < 0 || add_input_size(req, e) < 0 ||
		cli_connect(cli, CLIENT_START, e) < 0)
		return -1;
	if (req->tty && req->input && isatty(STDIN_FILENO) && tty_make_raw(STDIN_FILENO, e) < 0)
		return -1;
	failed = client_call(cli->client, &call, &result, e);
	tty_restore();
	if (failed < 0 || stream_end(&s, e) < 0)
		return -1;
	if (cli->json) {
		note_truncated(cli, &s, result);
		if (print_result(cli, &s, result, e) < 0)
			return -1;
	}
	return explain(cli, req, result);
}

int exec_run(struct cli *cli, struct exec_req *req, struct err *e)
{
	int code = run(cli, req, e);

	json_decref(req->args);
	json_decref(req->env);
	return code;
}

static json_t *argv_json(const char *const *words)
{
	auto_json json_t *argv = json_array();

	for (; argv && *words; words++)
		if (json_array_append_new(argv, json_string(*words)) < 0)
			return NULL;
	return take_ptr(&argv);
}

int exec_words(struct cli *cli, const char *sandbox, const char *const *words, struct err *e)
{
	const struct args *a = cli->args;
	auto_json json_t *argv = argv_json(words), *env = json_object(), *args = NULL;
	const char *cwd = args_get(a, "workdir");
	struct exec_req req = {.input = args_has(a, "interactive"), .tty = args_has(a, "tty")};
	int code;

	if (!argv || !env)
		return args_fail(e, "the command is not UTF-8");
	if (cli->json && req.tty)
		return args_fail(e, "--json and --tty exclude each other");
	if (args_seconds(a, "timeout", &req.timeout, e) < 0 ||
		args_pairs(a, "env", true, env, e) < 0)
		return -1;
	args = cli_target(cli, sandbox, e);
	if (!args)
		return -1;
	if (json_object_set(args, "argv", argv) < 0)
		return err_oom(e);
	if (cwd && json_object_set_new(args, "cwd", json_string(cwd)) < 0)
		return args_fail(e, "--workdir: not UTF-8");
	req.args = take_ptr(&args);
	req.env = take_ptr(&env);
	code = exec_run(cli, &req, e);
	if (code == NOT_FOUND && words[0][0] == '-')
		cli_note(cli, "options of %s stand before the %s", a->cmd->name,
			strcmp(a->cmd->name, "exec") == 0 ? "sandbox" : "image");
	return code;
}
