/* What is told of the people who did something in a sandbox. */
#include "daemon/registry/touches.h"

#include <string.h>

#include "util/json.h"
#include "tap.h"

static const char *text_of(const json_t *list, size_t i, const char *member)
{
	return json_string_value(json_object_get(json_array_get(list, i), member));
}

static json_int_t number_of(const json_t *list, size_t i, const char *member)
{
	return json_integer_value(json_object_get(json_array_get(list, i), member));
}

int main(void)
{
	auto_json json_t *none = NULL, *some = NULL, *copied = NULL;
	struct touches t, copy;

	touches_init(&t);
	touches_init(&copy);
	tap_ok(touches_to_json(&t, &none) && !none, "nobody has touched it at first");
	touches_add(&t, TOUCH_RESTORED, "web console");
	touches_add(&t, TOUCH_TYPED, "terminal");
	touches_add(&t, TOUCH_TYPED, "\033]0;title\a and much more than there is room for here");
	OK(touches_to_json(&t, &some));
	OK(json_array_size(some) == 2);
	STR_IS(text_of(some, 0, "what"), "typed");
	OK(number_of(some, 0, "count") == 2);
	OK(number_of(some, 0, "first") > 0);
	OK(number_of(some, 0, "last") >= number_of(some, 0, "first"));
	tap_ok(!strpbrk(text_of(some, 0, "by"), "\033\a"), "what a client says is escaped");
	STR_IS(text_of(some, 1, "what"), "restored");
	STR_IS(text_of(some, 1, "by"), "web console");
	touches_copy(&copy, &t);
	touches_add(&t, TOUCH_WROTE, "terminal");
	OK(touches_to_json(&copy, &copied));
	tap_ok(json_equal(copied, some), "a copy has been touched as its original had");
	touches_done(&copy);
	touches_done(&t);
	return tap_done();
}
