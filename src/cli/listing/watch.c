/*
 * The daemon's events are put into objects by id; the table is drawn from these. Each drawing goes
 * over the one before, so that the last one stays on the screen.
 */
#include "cli/listing/watch.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/format.h"
#include "cli/listing/listing.h"
#include "cli/terminal/signals.h"
#include "cli/terminal/table.h"
#include "util/auto.h"
#include "util/str.h"

#define FIGURES_SECONDS 1
enum { CTRL_C = 3, CELL = 32 };

struct watch {
	struct cli *cli;
	json_t *wanted;       /* labels that a sandbox must have */
	json_t *sandboxes;    /* SANDBOX objects by id, in the order in which they came */
	json_t *now, *before; /* FIGURES objects by "ID/VM" */
	bool listed;          /* all that there was at first is known */
	unsigned drawn;       /* lines of the last drawing */
	unsigned rows, cols;  /* of the terminal then */
};

static bool is_shown(const struct watch *w, const json_t *sb)
{
	bool standby = strcmp(get_str(sb, "state"), "standby") == 0;

	return (!standby || args_has(w->cli->args, "all")) && listing_wants(sb, w->wanted);
}

/* ---- the table ---- */

/* By how much a sum has grown in a second; -1: not known. */
static double rate(const json_t *now, const json_t *before, const char *name)
{
	double seconds = (get_num(now, "at_us") - get_num(before, "at_us")) / 1e6;

	if (!json_is_integer(json_object_get(now, name)) ||
		!json_is_integer(json_object_get(before, name)) || seconds <= 0)
		return -1;
	return (get_num(now, name) - get_num(before, name)) / seconds;
}

static void text_bytes(double bytes, const char *suffix, char out[static CELL])
{
	char size[24];

	if (bytes < 0) {
		snprintf(out, CELL, "-");
		return;
	}
	text_size(bytes, size);
	snprintf(out, CELL, "%s%s", size, suffix);
}

static const char *title_of(const json_t *sb)
{
	return *get_str(sb, "name") ? get_str(sb, "name") : get_str(sb, "id");
}

/* What the sandbox is for: task, sample and epoch if it has these labels, else all it has. */
static char *purpose_of(const json_t *sb)
{
	auto_json json_t *labels = listing_labels(sb);
	const char *task = get_str(labels, "task"), *sample = get_str(labels, "sample"),
		   *epoch = get_str(labels, "epoch");
	char *text = NULL;
	struct err ignored;

	if (!*task)
		return format_list(labels, NULL);
	return str_printf(&text, &ignored, "%s%s%s%s%s", task, *sample ? "/" : "", sample,
		       *epoch && strcmp(epoch, "1") != 0 ? "/" : "",
		       *epoch && strcmp(epoch, "1") != 0 ? epoch : "") < 0
		       ? NULL
		       : text;
}

static int add_vm(struct watch *w, struct table *t, bool purposes, const json_t *sb,
	const json_t *vm, struct err *e)
{
	auto_free char *key = NULL, *command = NULL, *purpose = purpose_of(sb);
	char cpu[CELL] = "-", memory[CELL], in[CELL], out[CELL];
	const json_t *now, *before;
	const char *cells[9], **cell = cells;
	const char *state = get_str(vm, "state");
	double busy;

	if (strcmp(get_str(sb, "state"), "running") != 0)
		state = get_str(sb, "state");
	if (str_printf(&key, e, "%s/%s", get_str(sb, "id"), get_str(vm, "name")) < 0)
		return -1;
	now = json_object_get(w->now, key);
	before = json_object_get(w->before, key);
	if (str_printf(&command, e, "%s%s", get_num(now, "running") > 0 ? "> " : "",
		    get_str(now, "command")) < 0)
		return -1;
	busy = rate(now, before, "cpu_us");
	if (busy >= 0)
		snprintf(cpu, sizeof(cpu), "%.0f%%", busy / 1e4);
	text_bytes(json_is_integer(json_object_get(now, "memory")) ? get_num(now, "memory") : -1,
		"", memory);
	text_bytes(rate(now, before, "received"), "/s", in);
	text_bytes(rate(now, before, "sent"), "/s", out);
	*cell++ = title_of(sb);
	*cell++ = get_str(vm, "name");
	*cell++ = state;
	*cell++ = cpu;
	*cell++ = memory;
	*cell++ = in;
	*cell++ = out;
	if (purposes)
		*cell++ = purpose ? purpose : "";
	*cell++ = command ? command : "";
	if (table_row(t, cells, e) < 0)
		return -1;
	table_colour(t, listing_colour(state));
	return 0;
}

static bool has_purposes(const struct watch *w)
{
	const char *id;
	json_t *sb;

	json_object_foreach(w->sandboxes, id, sb) {
		auto_free char *purpose = is_shown(w, sb) ? purpose_of(sb) : NULL;

		if (purpose && *purpose && strcmp(purpose, "-") != 0)
			return true;
	}
	return false;
}

static int fill_table(struct watch *w, struct table *t, bool purposes, struct err *e)
{
	const json_t *vm;
	const char *id;
	json_t *sb;
	size_t i;

	json_object_foreach(w->sandboxes, id, sb) {
		if (!is_shown(w, sb))
			continue;
		json_array_foreach(json_object_get(sb, "vms"), i, vm)
			if (add_vm(w, t, purposes, sb, vm, e) < 0)
				return -1;
	}
	return 0;
}

/* Puts the lines over those of the last drawing, as far as the terminal has room. */
static int put_lines(struct watch *w, char *text, struct err *e)
{
	auto_buf struct buf out = {0};
	unsigned rows, cols, lines = 0;
	char *rest = text;

	tty_size(&rows, &cols);
	/* A terminal of another size has broken the lines anew. */
	if (w->drawn && (rows != w->rows || cols != w->cols)) {
		if (buf_add_str(&out, "\x1b[H\x1b[2J", e) < 0)
			return -1;
	} else if (w->drawn && buf_printf(&out, e, "\x1b[%uA", w->drawn) < 0) {
		return -1;
	}
	for (char *line; (line = strsep(&rest, "\n")) && rest; lines++) {
		bool last = lines + 2 >= rows;

		if (buf_printf(&out, e, "%s\x1b[K\r\n", last ? "..." : line) < 0)
			return -1;
		if (last) {
			lines++;
			break;
		}
	}
	w->drawn = lines;
	w->rows = rows;
	w->cols = cols;
	if (buf_add_str(&out, "\x1b[J", e) < 0)
		return -1;
	return write_out(STDOUT_FILENO, buf_bytes(&out), e);
}

static int draw(struct watch *w, struct err *e)
{
	static const char *const plain[] = {
		"SANDBOX", "VM", "STATE", "CPU", "MEMORY", "IN", "OUT", "COMMAND", NULL};
	static const char *const labelled[] = {
		"SANDBOX", "VM", "STATE", "CPU", "MEMORY", "IN", "OUT", "FOR", "COMMAND", NULL};
	bool purposes = has_purposes(w);
	auto_table struct table *t = NULL;
	auto_free char *text = NULL;
	struct screen screen = w->cli->screen;
	auto_file FILE *to = NULL;
	size_t size = 0;
	unsigned rows;

	tty_size(&rows, &screen.width);
	if (table_new(purposes ? labelled : plain, &t, e) < 0 || fill_table(w, t, purposes, e) < 0)
		return -1;
	to = open_memstream(&text, &size);
	if (!to)
		return err_oom(e);
	table_print(t, &screen, to);
	if (fflush(to) != 0)
		return err_oom(e);
	return put_lines(w, text, e);
}

/* ---- lines ---- */

static int print_line(const json_t *sb, const char *state, struct err *e)
{
	auto_json json_t *labels = listing_labels(sb);
	auto_free char *vms = format_list(json_object_get(sb, "vms"), "name");
	auto_free char *said = format_list(labels, NULL);
	auto_free char *title = text_safe(get_str(sb, "name")), *safe = text_safe(said ? said : "");
	time_t now = time(NULL);
	char when[24] = "";
	struct tm tm;

	if (localtime_r(&now, &tm))
		strftime(when, sizeof(when), "%H:%M:%S", &tm);
	printf("%s  %s  %s  %s  %s  %s\n", when, get_str(sb, "id"), title && *title ? title : "-",
		state, vms ? vms : "", safe && *safe ? safe : "-");
	return fflush(stdout) == 0 ? 0 : check_stdout(e);
}

/* ---- events ---- */

static int take_figures(struct watch *w, const json_t *vms, struct err *e)
{
	json_t *now = json_object();
	const json_t *one;
	size_t i;

	if (!now)
		return err_oom(e);
	json_decref(w->before);
	w->before = w->now;
	w->now = now;
	json_array_foreach(vms, i, one) {
		auto_free char *key = NULL;

		if (str_printf(&key, e, "%s/%s", get_str(one, "sandbox"), get_str(one, "vm")) < 0)
			return -1;
		if (json_object_set(now, key, (json_t *)one) < 0)
			return err_oom(e);
	}
	return 0;
}

static int note_event(struct watch *w, const json_t *event, bool lines, struct err *e)
{
	const char *what = get_str(event, "what"), *id = get_str(event, "id");
	json_t *sb = json_object_get(event, "sandbox"), *old;

	if (strcmp(what, "figures") == 0)
		return take_figures(w, json_object_get(event, "vms"), e);
	if (strcmp(what, "listed") == 0)
		w->listed = true;
	if (strcmp(what, "sandbox") == 0) {
		if (json_object_set(w->sandboxes, get_str(sb, "id"), sb) < 0)
			return err_oom(e);
		return lines && is_shown(w, sb) ? print_line(sb, listing_state(sb), e) : 0;
	}
	old = json_object_get(w->sandboxes, id);
	if (strcmp(what, "gone") != 0 || !old)
		return 0;
	if (lines && is_shown(w, old) && print_line(old, "gone", e) < 0)
		return -1;
	json_object_del(w->sandboxes, id);
	return 0;
}

static int on_event_table(void *arg, const json_t *event, struct err *e)
{
	struct watch *w = arg;

	if (note_event(w, event, false, e) < 0)
		return -1;
	return w->listed ? draw(w, e) : 0;
}

static int on_event_lines(void *arg, const json_t *event, struct err *e)
{
	return note_event(arg, event, true, e);
}

static int on_event_json(void *arg, const json_t *event, struct err *e)
{
	(void)arg;
	if (json_dumpf(event, stdout, JSON_COMPACT) < 0 || putchar('\n') < 0 || fflush(stdout) != 0)
		return check_stdout(e) < 0 ? -1 : err_oom(e);
	return 0;
}

static bool on_key(void *arg, char key)
{
	(void)arg;
	return key == 'q' || key == CTRL_C;
}

static int watch_call(struct watch *w, json_t *args, struct err *e)
{
	struct cli *cli = w->cli;
	bool table = cli->screen.out_tty && !cli->json;
	struct call call = {.op = "watch",
		.args = args,
		.event = cli->json ? on_event_json
			 : table   ? on_event_table
				   : on_event_lines,
		.arg = w};
	int rc;

	if ((table || cli->json) &&
		json_object_set_new(args, "figures", json_real(FIGURES_SECONDS)) < 0)
		return err_oom(e);
	if (cli_connect(cli, CLIENT_START, e) < 0)
		return -1;
	if (table && isatty(STDIN_FILENO)) {
		if (tty_make_raw(STDIN_FILENO, e) < 0)
			return -1;
		call.key = on_key;
	}
	rc = client_call(cli->client, &call, NULL, e);
	tty_restore();
	/* To be told to stop is the usual end. */
	return rc == 0 || e->kind == ERR_CANCELLED ? EXIT_OK : -1;
}

int watch_run(struct cli *cli, struct err *e)
{
	auto_json json_t *wanted = json_object(), *sandboxes = json_object(), *args = NULL;
	struct watch w = {.cli = cli, .wanted = wanted, .sandboxes = sandboxes};
	int rc;

	if (!wanted || !sandboxes)
		return err_oom(e);
	if (args_has(cli->args, "ids") || args_has(cli->args, "format"))
		return args_fail(e, "--watch goes neither with --ids nor with --format");
	args = cli_target(cli, cli->args->n_operands ? cli->args->operands[0] : NULL, e);
	if (!args || args_pairs(cli->args, "label", false, wanted, e) < 0)
		return -1;
	rc = watch_call(&w, args, e);
	json_decref(w.now);
	json_decref(w.before);
	return rc;
}
