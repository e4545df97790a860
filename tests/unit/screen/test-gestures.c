/* test-gestures.c - clicks, drags and the like as movements. */
#include "screen/gestures.h"
#include "tap.h"
#include "util/auto.h"
#include "util/json.h"

static struct pointer pointer;
static const struct canvas hd = {1366, 768};

/* The movements as text; positions in pixels of 1920x1080. */
static const char *plan(const char *actions)
{
	static char text[4096];
	auto_json json_t *j = json_loads(actions, JSON_DECODE_ANY, NULL);
	auto_steps struct steps s = {0};
	struct err e = {0};
	size_t len = 0;

	if (gestures_plan(j, &hd, &pointer, &s, &e) < 0) {
		snprintf(text, sizeof(text), "%s", e.msg);
		return text;
	}
	text[0] = 0;
	for (size_t i = 0; i < s.n && len < sizeof(text); i++) {
		const struct step *t = &s.list[i];
		char *at = text + len;
		size_t room = sizeof(text) - len;

		if (t->kind == STEP_KEY)
			len += (size_t)snprintf(
				at, room, "%c%s ", t->down ? '+' : '-', t->key->qcode);
		else if (t->kind == STEP_MOVE)
			len += (size_t)snprintf(at, room, "%u,%u ", t->x * 1920 / POSITION_ONE,
				t->y * 1080 / POSITION_ONE);
		else if (t->kind == STEP_BUTTON)
			len += (size_t)snprintf(
				at, room, "%c%d ", t->down ? '+' : '-', (int)t->button);
		else if (t->kind == STEP_WHEEL)
			len += (size_t)snprintf(at, room, "%s ", t->down ? "wheel" : "WHEEL");
		else
			len += (size_t)snprintf(at, room, "%ums ", t->ms);
	}
	if (len)
		text[len - 1] = 0;
	return text;
}

static void test_pointer(void)
{
	pointer = (struct pointer){0};
	STR_IS(plan("[{\"do\":\"click\"}]"), "+0 40ms -0");
	OK(!pointer.known);
	STR_IS(plan("[{\"do\":\"move\",\"x\":0,\"y\":0}]"), "0,0");
	OK(pointer.known && canvas_x(&hd, &pointer) == 0 && canvas_y(&hd, &pointer) == 0);
	STR_IS(plan("[{\"do\":\"click\",\"x\":1365,\"y\":767,\"button\":\"right\"}]"),
		"1919,1079 +2 40ms -2");
	OK(canvas_x(&hd, &pointer) == 1365 && canvas_y(&hd, &pointer) == 767);
	STR_IS(plan("[{\"do\":\"click\",\"count\":2,\"keys\":\"ctrl\"}]"),
		"+ctrl +0 40ms -0 40ms +0 40ms -0 -ctrl");
	STR_IS(plan("[{\"do\":\"down\",\"button\":\"middle\"},{\"do\":\"up\",\"button\":\"middle\"}"
		    "]"),
		"+1 -1");
	STR_IS(plan("[{\"do\":\"click\",\"button\":\"back\"}]"), "+ac_back 40ms -ac_back");
	STR_IS(plan("[{\"do\":\"scroll\",\"direction\":\"down\",\"amount\":2}]"), "wheel wheel");
	STR_IS(plan("[{\"do\":\"scroll\",\"direction\":\"left\"}]"), "+shift WHEEL -shift");
	STR_IS(plan("[{\"do\":\"drag\",\"from\":[0,0],\"x\":8,\"y\":0}]"),
		"0,0 +0 60ms 2,0 3,0 4,0 6,0 7,0 9,0 10,0 11,0 60ms -0");
}

/* Each pixel is itself again when it comes back from a screen of another size. */
static void test_every_pixel(void)
{
	bool same = true;

	for (unsigned x = 0; x < hd.width; x++) {
		char text[80];

		snprintf(text, sizeof(text), "[{\"do\":\"move\",\"x\":%u,\"y\":0}]", x);
		plan(text);
		same = same && canvas_x(&hd, &pointer) == x;
	}
	OK(same);
}

static void test_refusals(void)
{
	pointer = (struct pointer){0};
	OK(strstr(plan("{}"), "actions: no list"));
	OK(strstr(plan("[1]"), "actions[0]: is no object with \"do\""));
	OK(strstr(plan("[{\"do\":\"fly\"}]"), "nothing is called \"fly\""));
	OK(strstr(plan("[{\"do\":\"wait\",\"seconds\":0},{\"do\":\"click\",\"x\":1366,\"y\":0}]"),
		"actions[1]: 1366,0 is outside the picture, which has 1366x768 pixels"));
	OK(strstr(plan("[{\"do\":\"move\",\"x\":-1,\"y\":-1}]"), "is outside the picture"));
	/* Not where the pointer happens to be. */
	OK(strstr(plan("[{\"do\":\"click\",\"x\":-1,\"y\":-1}]"), "-1,-1 is outside the picture"));
	OK(strstr(plan("[{\"do\":\"scroll\",\"direction\":\"up\",\"x\":-1,\"y\":-1}]"),
		"-1,-1 is outside the picture"));
	OK(strstr(plan("[{\"do\":\"drag\",\"x\":1,\"y\":1,\"from\":[-1,-1]}]"),
		"-1,-1 is outside the picture"));
	OK(strstr(plan("[{\"do\":\"click\",\"x\":1}]"), "one of x and y is missing"));
	OK(strstr(plan("[{\"do\":\"click\",\"count\":4}]"), "count: is 1, 2 or 3"));
	OK(strstr(plan("[{\"do\":\"down\",\"button\":\"fire\"}]"), "no button is called \"fire\""));
	OK(strstr(
		plan("[{\"do\":\"drag\",\"x\":1,\"y\":1}]"), "nobody knows where the pointer is"));
	OK(strstr(plan("[{\"do\":\"scroll\",\"direction\":\"in\"}]"), "direction: is up"));
	OK(strstr(plan("[{\"do\":\"scroll\",\"direction\":\"up\",\"amount\":100000}]"),
		"amount: not"));
	OK(strstr(plan("[{\"do\":\"key\",\"keys\":\" \"}]"), "no key is named"));
	OK(strstr(plan("[{\"do\":\"key\",\"keys\":\"a\",\"hold\":1e9}]"), "hold: not between"));
	OK(strstr(plan("[{\"do\":\"type\",\"text\":\"a\",\"other\":\"x\"}]"), "other: is"));
}

static void test_release(void)
{
	auto_json json_t *j =
		json_loads("[{\"do\":\"key\",\"keys\":\"ctrl+a ctrl+b\"},"
			   "{\"do\":\"down\"},{\"do\":\"scroll\",\"direction\":\"up\"}]",
			0, NULL);
	auto_steps struct steps s = {0}, ups = {0};
	struct err e = {0};

	OK(gestures_plan(j, &hd, &pointer, &s, &e) == 0 && steps_release(&s, &ups, &e) == 0);
	OK(ups.n == 4 && !ups.list[0].down && strcmp(ups.list[0].key->qcode, "ctrl") == 0 &&
		ups.list[3].kind == STEP_BUTTON && !ups.list[3].down);
}

int main(void)
{
	test_pointer();
	test_every_pixel();
	test_refusals();
	test_release();
	return tap_done();
}
