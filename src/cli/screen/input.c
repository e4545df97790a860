#include <string.h>

#include "cli/cli.h"
#include "cli/stream.h"
#include "util/auto.h"
#include "util/str.h"

enum { STDIN_MAX = 1024 * 1024 };

/* The words after the sandbox's name: what to do, and with what. */
struct words {
	const struct args *a;
	const char **at; /* NULL at the end */
	unsigned n;
};

static int read_whole(const char *text, const char *what, json_int_t *ret, struct err *e)
{
	struct err ignored;
	uint64_t n;

	if (str_to_u64(text, 0, 1000000, &n, &ignored) < 0)
		return args_fail(e, "%s is no whole number: %s", what, text);
	*ret = (json_int_t)n;
	return 0;
}

/* Adds x and y, if two words are left. */
static int add_point(const struct words *w, unsigned from, json_t *action, struct err *e)
{
	json_int_t x, y;

	if (w->n == from)
		return 0;
	if (w->n != from + 2)
		return args_fail(e, "a place is X Y, in pixels");
	if (read_whole(w->at[from], "X", &x, e) < 0 || read_whole(w->at[from + 1], "Y", &y, e) < 0)
		return -1;
	json_object_set_new(action, "x", json_integer(x));
	json_object_set_new(action, "y", json_integer(y));
	return 0;
}

static int add_text(json_t *action, const char *name, const char *text, struct err *e)
{
	if (!text)
		return 0;
	return json_object_set_new(action, name, json_string(text)) < 0
		       ? args_fail(e, "--%s: not UTF-8", name)
		       : 0;
}

static int add_options(const struct words *w, json_t *action, struct err *e)
{
	uint64_t count = 0;

	if (args_number(w->a, "count", 3, &count, e) < 0)
		return -1;
	if (count)
		json_object_set_new(action, "count", json_integer((json_int_t)count));
	if (add_text(action, "button", args_get(w->a, "button"), e) < 0)
		return -1;
	return add_text(action, "keys", args_get(w->a, "keys"), e);
}

static int make_type(const struct words *w, json_t *action, struct err *e)
{
	auto_free char *text = NULL;
	size_t len = 0;

	if (w->n != 1)
		return args_fail(e, "type takes one text; - is standard input");
	if ((strcmp(w->at[0], "-") == 0 ? read_stdin(STDIN_MAX, &text, &len, e)
					: str_dup(w->at[0], &text, e)) < 0)
		return -1;
	if (len > strlen(text))
		return err_set(e, ERR_INVALID, "the text has a NUL character");
	if (json_object_set_new(action, "text", json_string(text)) < 0)
		return args_fail(e, "the text is not UTF-8");
	return add_text(action, "other", args_get(w->a, "other"), e);
}

static int make_key(const struct words *w, json_t *action, struct err *e)
{
	double hold = -1;

	if (w->n != 1)
		return args_fail(e, "key takes the names of keys: \"ctrl+alt+t\"");
	if (args_seconds(w->a, "hold", &hold, e) < 0)
		return -1;
	if (hold >= 0)
		json_object_set_new(action, "hold", json_real(hold));
	return add_text(action, "keys", w->at[0], e);
}

static int make_scroll(const struct words *w, json_t *action, struct err *e)
{
	json_int_t amount;

	if (w->n < 1)
		return args_fail(e, "scroll takes a direction: up, down, left or right");
	if (add_text(action, "direction", w->at[0], e) < 0 ||
		add_text(action, "keys", args_get(w->a, "keys"), e) < 0)
		return -1;
	if (w->n > 1) {
		if (read_whole(w->at[1], "the number of clicks", &amount, e) < 0)
			return -1;
		json_object_set_new(action, "amount", json_integer(amount));
	}
	return add_point(w, w->n > 1 ? 2 : 1, action, e);
}

static int make_drag(const struct words *w, json_t *action, struct err *e)
{
	struct words to = {.a = w->a, .at = w->at + 2, .n = 2};
	json_int_t x, y;

	if (w->n != 4)
		return args_fail(e, "drag goes from X Y to X Y");
	if (read_whole(w->at[0], "X", &x, e) < 0 || read_whole(w->at[1], "Y", &y, e) < 0 ||
		add_point(&to, 0, action, e) < 0 || add_options(w, action, e) < 0)
		return -1;
	json_object_set_new(action, "from", json_pack("[I, I]", x, y));
	return 0;
}

/* Fills in what the words say. "where" has no action: the answer tells. */
static int make_action(const char *what, const struct words *w, json_t *action, struct err *e)
{
	if (strcmp(what, "type") == 0)
		return make_type(w, action, e);
	if (strcmp(what, "key") == 0)
		return make_key(w, action, e);
	if (strcmp(what, "scroll") == 0)
		return make_scroll(w, action, e);
	if (strcmp(what, "drag") == 0)
		return make_drag(w, action, e);
	if (strcmp(what, "move") == 0)
		return w->n ? add_point(w, 0, action, e)
			    : args_fail(e, "a place is X Y, in pixels");
	if (strcmp(what, "click") == 0)
		return add_options(w, action, e) < 0 ? -1 : add_point(w, 0, action, e);
	if (strcmp(what, "down") == 0 || strcmp(what, "up") == 0)
		return add_text(action, "button", args_get(w->a, "button"), e) < 0
			       ? -1
			       : add_point(w, 0, action, e);
	return args_fail(e,
		"\"%s\" is none of: click, drag, move, down, up, scroll, key, type, where", what);
}

static int make_actions(const struct words *w, const char *what, json_t **ret, struct err *e)
{
	auto_json json_t *actions = json_array(), *action = json_pack("{s:s}", "do", what);

	if (!actions)
		return err_oom(e);
	if (strcmp(what, "where") != 0) {
		if (!action)
			return args_fail(e, "the action is not UTF-8");
		if (make_action(what, w, action, e) < 0)
			return -1;
		if (json_array_append(actions, action) < 0)
			return err_oom(e);
	}
	*ret = take_ptr(&actions);
	return 0;
}

static int cmd_input_run(struct cli *cli, struct err *e)
{
	const struct args *a = cli->args;
	const char *what = a->operands[1];
	struct words w = {.a = a, .at = a->operands + 2, .n = a->n_operands - 2};
	auto_json json_t *args = cli_target(cli, a->operands[0], e), *actions = NULL, *of = NULL;
	auto_json json_t *result = NULL;
	json_t *pointer;

	if (!args || make_actions(&w, what, &actions, e) < 0 || args_size(a, "of", &of, e) < 0)
		return -1;
	if (json_object_set(args, "actions", actions) < 0 ||
		(of && json_object_set(args, "of", of) < 0))
		return err_oom(e);
	if (cli_request(cli, "input", take_ptr(&args), &result, e) < 0)
		return -1;
	if (cli->json)
		return print_json(&cli->screen, result, e);
	pointer = json_object_get(result, "pointer");
	if (strcmp(what, "where") != 0)
		return EXIT_OK;
	if (!json_is_array(pointer))
		return err_set(e, ERR_NOT_FOUND, "moat has not moved this pointer yet");
	printf("%lld %lld\n", (long long)json_integer_value(json_array_get(pointer, 0)),
		(long long)json_integer_value(json_array_get(pointer, 1)));
	return EXIT_OK;
}

static const struct opt input_opts[] = {
	{0, "vm", "NAME", "in this VM of the sandbox"},
	{0, "button", "BUTTON", "left (default), middle, right, back or forward"},
	{0, "count", "N", "click twice or three times"},
	{0, "keys", "KEYS", "hold these keys during a click, drag or scroll"},
	{0, "hold", "SECONDS", "how long the keys of `key` stay down"},
	{0, "other", "HOW",
		"what no US keyboard has is typed by \"alt\" and its number, or by "
		"\"ctrl-shift-u\""},
	{0, "of", "WxH", "places are in a picture of this size (default: the last one)"},
	{0},
};

const struct cmd cmd_input = {
	.name = "input",
	.group = "Sandboxes:",
	.synopsis = "SANDBOX ACTION [ARGUMENT...]",
	.summary = "type on a VM's keyboard, and use its pointer",
	.about = "  click [X Y]              drag X Y X Y             move X Y\n"
		 "  down [X Y]               up [X Y]                 where\n"
		 "  scroll DIRECTION [N [X Y]]                        key KEYS\n"
		 "  type TEXT (- is standard input)\n"
		 "\n"
		 "X and Y are pixels of the picture that `moat screenshot` made last. Keys have\n"
		 "X11's names; + joins those that are pressed together, spaces separate what is\n"
		 "pressed one after the other. Text is typed on a US layout. The VM needs a\n"
		 "graphics card (`vga: std` in the spec).",
	.examples = "  moat input 3f9c click 640 360\n"
		    "  moat input --button right --count 2 3f9c click 10 10\n"
		    "  moat input 3f9c key \"ctrl+alt+t\"\n"
		    "  moat input 3f9c type \"uname -a\"\n"
		    "  moat input 3f9c scroll down 5",
	.opts = input_opts,
	.min = 2,
	.max = 6,
	.operand = OPERAND_SANDBOX,
	.flags = CMD_JSON,
	.run = cmd_input_run,
};
