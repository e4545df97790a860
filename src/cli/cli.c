#include "cli/cli.h"

#include <stdarg.h>
#include <string.h>

#include "util/auto.h"

int cli_connect(struct cli *cli, unsigned flags, struct err *e)
{
	if (cli->client)
		return 0;
	return client_open(&cli->paths, flags, &cli->client, e);
}

static void show_progress(void *arg, const char *text, uint64_t done, uint64_t total)
{
	struct cli *cli = arg;

	progress_update(&cli->progress, text, done, total);
}

static void show_tick(void *arg)
{
	struct cli *cli = arg;

	progress_tick(&cli->progress);
}

int cli_call(struct cli *cli, struct call *call, json_t **ret, struct err *e)
{
	int rc;

	if (cli_connect(cli, CLIENT_START, e) < 0)
		return -1;
	if (!call->arg) {
		call->progress = show_progress;
		call->tick = cli->progress.style == PROGRESS_LIVE ? show_tick : NULL;
		call->arg = cli;
	}
	rc = client_call(cli->client, call, ret, e);
	progress_clear(&cli->progress);
	return rc;
}

int cli_request(struct cli *cli, const char *op, json_t *args, json_t **ret, struct err *e)
{
	auto_json json_t *owned = args;
	struct call call = {.op = op, .args = owned};

	if (!owned)
		return err_oom(e);
	return cli_call(cli, &call, ret, e);
}

static int set_text(json_t *j, const char *name, const char *value, struct err *e)
{
	if (value && json_object_set_new(j, name, json_string(value)) < 0)
		return args_fail(e, "%s: not UTF-8", name);
	return 0;
}

static bool has_opt(const struct cmd *cmd, const char *name)
{
	for (const struct opt *o = cmd->opts; o && o->name; o++)
		if (strcmp(o->name, name) == 0)
			return true;
	return false;
}

json_t *cli_target(struct cli *cli, const char *sandbox, struct err *e)
{
	static const char *const names[] = {"vm", "user"};
	auto_json json_t *j = json_object();

	if (!j) {
		err_oom(e);
		return NULL;
	}
	if (set_text(j, "sandbox", sandbox, e) < 0)
		return NULL;
	for (unsigned i = 0; i < ARRAY_LEN(names); i++)
		if (has_opt(cli->args->cmd, names[i]) &&
			set_text(j, names[i], args_get(cli->args, names[i]), e) < 0)
			return NULL;
	return take_ptr(&j);
}

void cli_note(struct cli *cli, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	if (cli->quiet)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	progress_clear(&cli->progress);
	fputs("moat: ", stderr);
	print_safe_lines(stderr, text);
}

void cli_print_error(struct cli *cli, const struct err *e)
{
	bool colours = cli->screen.err_colour;

	progress_clear(&cli->progress);
	fprintf(stderr, "%smoat:%s ", colour_on(colours, COLOUR_RED), colour_off(colours));
	print_safe_lines(stderr, e->msg);
}

enum exit_code cli_code_of(const struct err *e)
{
	switch (e->kind) {
	case ERR_NOT_FOUND:
		return EXIT_NOT_FOUND;
	case ERR_UNAVAILABLE:
		return EXIT_UNAVAILABLE;
	case ERR_CANCELLED:
		return EXIT_INTERRUPTED;
	default:
		return EXIT_FAILED;
	}
}

json_t *cli_error_json(const struct err *e)
{
	return json_pack(
		"{s:s, s:o}", "kind", err_kind_name(e->kind), "message", json_text(e->msg));
}

const char *get_str(const json_t *j, const char *name)
{
	const char *s = json_string_value(json_object_get(j, name));

	return s ? s : "";
}

double get_num(const json_t *j, const char *name)
{
	return json_number_value(json_object_get(j, name));
}
