#include "screen/gestures.h"

#include <math.h>
#include <string.h>

#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"

/* How long a person would take, in milliseconds; programs may look at keys and buttons as seldom as
 * that. */
enum {
	KEY_MS = 40,       /* a key stays down */
	BUTTON_MS = 40,    /* a button stays down */
	BETWEEN_MS = 40,   /* between two clicks of a double click */
	DRAG_MS = 60,      /* between the parts of a drag */
	DRAG_PARTS = 8,    /* a pointer that jumps is no drag for many programs */
	HOLD_MAX = 120,    /* seconds */
	SCROLL_MAX = 1000, /* clicks of the wheel */
};

/* A coordinate that was left out. */
#define NOT_GIVEN INT64_MIN

struct planner {
	const struct canvas *of;
	struct pointer *pointer;
	struct steps *steps;
};

unsigned canvas_x(const struct canvas *of, const struct pointer *p)
{
	return (unsigned)((uint64_t)p->x * of->width / POSITION_ONE);
}

unsigned canvas_y(const struct canvas *of, const struct pointer *p)
{
	return (unsigned)((uint64_t)p->y * of->height / POSITION_ONE);
}

/* The middle of a pixel, so that it is the same pixel in whatever the guest counts. */
static unsigned middle_of(unsigned pixel, unsigned size)
{
	return (unsigned)(((uint64_t)pixel * 2 + 1) * POSITION_ONE / (2 * (uint64_t)size));
}

static int move_to(struct planner *p, unsigned x, unsigned y, struct err *e)
{
	p->pointer->known = true;
	p->pointer->x = x;
	p->pointer->y = y;
	return steps_add(p->steps, (struct step){.kind = STEP_MOVE, .x = x, .y = y}, e);
}

/* Reads a pair of coordinates. */
static int read_point(const struct planner *p, json_int_t x, json_int_t y, unsigned *ret_x,
	unsigned *ret_y, struct err *e)
{
	if (x == NOT_GIVEN || y == NOT_GIVEN)
		return err_set(e, ERR_INVALID, "one of x and y is missing");
	if (x < 0 || y < 0 || x >= p->of->width || y >= p->of->height)
		return err_set(e, ERR_INVALID,
			"%lld,%lld is outside the picture, which has %ux%u pixels", (long long)x,
			(long long)y, p->of->width, p->of->height);
	*ret_x = middle_of((unsigned)x, p->of->width);
	*ret_y = middle_of((unsigned)y, p->of->height);
	return 0;
}

/* Goes to x and y where they are given. */
static int go(struct planner *p, json_int_t x, json_int_t y, struct err *e)
{
	unsigned to_x, to_y;

	if (x == NOT_GIVEN && y == NOT_GIVEN)
		return 0;
	if (read_point(p, x, y, &to_x, &to_y, e) < 0)
		return -1;
	return move_to(p, to_x, to_y, e);
}

/* The buttons that clients name: those of a screen, and two that tablets have not. Programs take
 * the keys of these names for them. */
enum named_button { NAMED_BACK = SCREEN_BUTTONS, NAMED_FORWARD };

static int press(struct planner *p, enum named_button button, bool down, struct err *e)
{
	if (button == NAMED_BACK || button == NAMED_FORWARD)
		return steps_add_key(
			p->steps, button == NAMED_BACK ? key_back : key_forward, down, e);
	return steps_add(p->steps,
		(struct step){
			.kind = STEP_BUTTON, .button = (enum screen_button)button, .down = down},
		e);
}

static int read_button(const char *name, enum named_button *ret, struct err *e)
{
	static const char *const names[] = {"left", "middle", "right", "back", "forward"};
	char shown[40];

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(names[i], name) == 0) {
			*ret = (enum named_button)i;
			return 0;
		}
	str_escape(name, strlen(name), shown, sizeof(shown));
	return err_set(e, ERR_INVALID,
		"no button is called \"%s\": there are left, middle, right, back, forward", shown);
}

/* Keys that are held while a button or the wheel moves. */
static int read_held(const char *keys, struct chord *ret, struct err *e)
{
	const char *at = keys;

	*ret = (struct chord){0};
	return keys ? chord_next(&at, ret, e) : 0;
}

static int plan_key(struct planner *p, json_t *action, struct err *e)
{
	const char *keys, *what;
	double hold = KEY_MS / 1000.0;
	struct chord chord;
	int more;

	if (json_get(action, "key", e, "{s:s, s:s, s?F}", "do", &what, "keys", &keys, "hold",
		    &hold) < 0)
		return -1;
	if (!isfinite(hold) || hold < 0 || hold > HOLD_MAX)
		return err_set(e, ERR_INVALID, "hold: not between 0 and %d seconds", HOLD_MAX);
	if (!keys[strspn(keys, " \t\n")])
		return err_set(e, ERR_INVALID, "keys: no key is named");
	while ((more = chord_next(&keys, &chord, e)) > 0)
		if (chord_press(&chord, true, p->steps, e) < 0 ||
			steps_add_pause(p->steps, (unsigned)(hold * 1000), e) < 0 ||
			chord_press(&chord, false, p->steps, e) < 0 ||
			steps_add_pause(p->steps, 1, e) < 0)
			return -1;
	return more;
}

static int plan_keys_down_or_up(struct planner *p, json_t *action, bool down, struct err *e)
{
	const char *keys, *what;
	struct chord chord;
	int more;

	if (json_get(action, "action", e, "{s:s, s:s}", "do", &what, "keys", &keys) < 0)
		return -1;
	while ((more = chord_next(&keys, &chord, e)) > 0)
		if (chord_press(&chord, down, p->steps, e) < 0)
			return -1;
	return more;
}

static int plan_key_down(struct planner *p, json_t *action, struct err *e)
{
	return plan_keys_down_or_up(p, action, true, e);
}

static int plan_key_up(struct planner *p, json_t *action, struct err *e)
{
	return plan_keys_down_or_up(p, action, false, e);
}

static int plan_type(struct planner *p, json_t *action, struct err *e)
{
	const char *text, *what, *other = "refuse";
	enum other_characters how;

	if (json_get(action, "type", e, "{s:s, s:s, s?s}", "do", &what, "text", &text, "other",
		    &other) < 0)
		return -1;
	if (other_characters_of(other, &how) < 0)
		return err_set(e, ERR_INVALID, "other: is \"refuse\", \"alt\" or \"ctrl-shift-u\"");
	return text_type(text, how, p->steps, e);
}

static int plan_move(struct planner *p, json_t *action, struct err *e)
{
	json_int_t x, y;
	const char *what;

	if (json_get(action, "move", e, "{s:s, s:I, s:I}", "do", &what, "x", &x, "y", &y) < 0)
		return -1;
	return go(p, x, y, e);
}

static int plan_down_or_up(struct planner *p, json_t *action, bool down, struct err *e)
{
	const char *what, *name = "left";
	enum named_button button;
	json_int_t x = NOT_GIVEN, y = NOT_GIVEN;

	if (json_get(action, "action", e, "{s:s, s?s, s?I, s?I}", "do", &what, "button", &name, "x",
		    &x, "y", &y) < 0 ||
		read_button(name, &button, e) < 0 || go(p, x, y, e) < 0)
		return -1;
	return press(p, button, down, e);
}

static int plan_down(struct planner *p, json_t *action, struct err *e)
{
	return plan_down_or_up(p, action, true, e);
}

static int plan_up(struct planner *p, json_t *action, struct err *e)
{
	return plan_down_or_up(p, action, false, e);
}

static int plan_click(struct planner *p, json_t *action, struct err *e)
{
	const char *what, *name = "left", *keys = NULL;
	json_int_t x = NOT_GIVEN, y = NOT_GIVEN, count = 1;
	enum named_button button;
	struct chord held;

	if (json_get(action, "click", e, "{s:s, s?s, s?I, s?I, s?I, s?s}", "do", &what, "button",
		    &name, "x", &x, "y", &y, "count", &count, "keys", &keys) < 0 ||
		read_button(name, &button, e) < 0 || read_held(keys, &held, e) < 0 ||
		go(p, x, y, e) < 0 || chord_press(&held, true, p->steps, e) < 0)
		return -1;
	if (count < 1 || count > 3)
		return err_set(e, ERR_INVALID, "count: is 1, 2 or 3");
	for (json_int_t i = 0; i < count; i++)
		if ((i && steps_add_pause(p->steps, BETWEEN_MS, e) < 0) ||
			press(p, button, true, e) < 0 ||
			steps_add_pause(p->steps, BUTTON_MS, e) < 0 ||
			press(p, button, false, e) < 0)
			return -1;
	return chord_press(&held, false, p->steps, e);
}

static int plan_drag(struct planner *p, json_t *action, struct err *e)
{
	const char *what, *name = "left", *keys = NULL;
	json_int_t x, y, from_x = NOT_GIVEN, from_y = NOT_GIVEN;
	enum named_button button;
	struct chord held;
	unsigned to_x, to_y;
	struct pointer from;

	if (json_get(action, "drag", e, "{s:s, s:I, s:I, s?[II], s?s, s?s}", "do", &what, "x", &x,
		    "y", &y, "from", &from_x, &from_y, "button", &name, "keys", &keys) < 0 ||
		read_button(name, &button, e) < 0 || read_held(keys, &held, e) < 0 ||
		read_point(p, x, y, &to_x, &to_y, e) < 0 || go(p, from_x, from_y, e) < 0)
		return -1;
	if (!p->pointer->known)
		return err_set(e, ERR_INVALID,
			"a drag without \"from\", and nobody knows where the pointer is");
	from = *p->pointer;
	if (chord_press(&held, true, p->steps, e) < 0 || press(p, button, true, e) < 0 ||
		steps_add_pause(p->steps, DRAG_MS, e) < 0)
		return -1;
	for (int i = 1; i <= DRAG_PARTS; i++)
		if (move_to(p, (unsigned)((int)from.x + ((int)to_x - (int)from.x) * i / DRAG_PARTS),
			    (unsigned)((int)from.y + ((int)to_y - (int)from.y) * i / DRAG_PARTS),
			    e) < 0)
			return -1;
	if (steps_add_pause(p->steps, DRAG_MS, e) < 0 || press(p, button, false, e) < 0)
		return -1;
	return chord_press(&held, false, p->steps, e);
}

/* Tablets have no wheel for left and right; programs take the other one with shift for it. */
static int plan_scroll(struct planner *p, json_t *action, struct err *e)
{
	const char *what, *direction, *keys = NULL;
	json_int_t x = NOT_GIVEN, y = NOT_GIVEN, amount = 1;
	struct chord held;
	bool down, across;

	if (json_get(action, "scroll", e, "{s:s, s:s, s?I, s?I, s?I, s?s}", "do", &what,
		    "direction", &direction, "amount", &amount, "x", &x, "y", &y, "keys",
		    &keys) < 0 ||
		read_held(keys, &held, e) < 0 || go(p, x, y, e) < 0)
		return -1;
	across = strcmp(direction, "left") == 0 || strcmp(direction, "right") == 0;
	down = strcmp(direction, "down") == 0 || strcmp(direction, "right") == 0;
	if (!across && !down && strcmp(direction, "up") != 0)
		return err_set(e, ERR_INVALID, "direction: is up, down, left or right");
	if (amount < 0 || amount > SCROLL_MAX)
		return err_set(e, ERR_INVALID, "amount: not between 0 and %d", SCROLL_MAX);
	if ((across && steps_add_key(p->steps, key_shift, true, e) < 0) ||
		chord_press(&held, true, p->steps, e) < 0)
		return -1;
	for (json_int_t i = 0; i < amount; i++)
		if (steps_add(p->steps, (struct step){.kind = STEP_WHEEL, .down = down}, e) < 0)
			return -1;
	if (chord_press(&held, false, p->steps, e) < 0)
		return -1;
	return across ? steps_add_key(p->steps, key_shift, false, e) : 0;
}

static int plan_wait(struct planner *p, json_t *action, struct err *e)
{
	const char *what;
	double seconds;

	if (json_get(action, "wait", e, "{s:s, s:F}", "do", &what, "seconds", &seconds) < 0)
		return -1;
	if (!isfinite(seconds) || seconds < 0 || seconds > HOLD_MAX)
		return err_set(e, ERR_INVALID, "seconds: not between 0 and %d", HOLD_MAX);
	return steps_add_pause(p->steps, (unsigned)(seconds * 1000), e);
}

static const struct {
	const char *name;
	int (*plan)(struct planner *p, json_t *action, struct err *e);
} kinds[] = {
	{"key", plan_key},
	{"key_down", plan_key_down},
	{"key_up", plan_key_up},
	{"type", plan_type},
	{"move", plan_move},
	{"down", plan_down},
	{"up", plan_up},
	{"click", plan_click},
	{"drag", plan_drag},
	{"scroll", plan_scroll},
	{"wait", plan_wait},
};

static int plan_one(struct planner *p, json_t *action, struct err *e)
{
	const char *what = json_string_value(json_object_get(action, "do"));
	char shown[40];

	if (!what)
		return err_set(e, ERR_INVALID, "is no object with \"do\"");
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (strcmp(kinds[i].name, what) == 0)
			return kinds[i].plan(p, action, e);
	str_escape(what, strlen(what), shown, sizeof(shown));
	return err_set(e, ERR_INVALID, "nothing is called \"%s\"", shown);
}

int gestures_plan(const json_t *actions, const struct canvas *of, struct pointer *pointer,
	struct steps *ret, struct err *e)
{
	struct planner p = {.of = of, .pointer = pointer, .steps = ret};
	json_t *action;
	size_t i;

	if (!json_is_array(actions) || json_array_size(actions) > GESTURES_MAX)
		return err_set(e, ERR_INVALID, "actions: no list of at most %d", GESTURES_MAX);
	json_array_foreach(actions, i, action)
		if (plan_one(&p, action, e) < 0)
			return err_wrap(e, "actions[%zu]", i);
	return 0;
}

static bool is_released(const struct steps *ups, const struct step *of)
{
	for (size_t i = 0; i < ups->n; i++)
		if (ups->list[i].kind == of->kind && ups->list[i].key == of->key &&
			ups->list[i].button == of->button)
			return true;
	return false;
}

int steps_release(const struct steps *done, struct steps *ret, struct err *e)
{
	for (size_t i = 0; i < done->n; i++) {
		struct step up = {.kind = done->list[i].kind,
			.key = done->list[i].key,
			.button = done->list[i].button};

		if ((up.kind != STEP_KEY && up.kind != STEP_BUTTON) || is_released(ret, &up))
			continue;
		if (steps_add(ret, up, e) < 0)
			return -1;
	}
	return 0;
}
