#include "daemon/registry/touches.h"

#include <assert.h>
#include <string.h>
#include <time.h>

#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"

void touches_init(struct touches *t)
{
	*t = (struct touches){0};
	lock_init(&t->mu, "touches.mu", LOCK_LEAF);
}

void touches_done(struct touches *t)
{
	lock_done(&t->mu);
}

void touches_add(struct touches *t, enum touch what, const char *by)
{
	auto_unlock struct lock *held = lock_take(&t->mu);
	struct touch_record *one = &t->of[what];

	one->last = time(NULL);
	if (!one->count++)
		one->first = one->last;
	str_escape(by, strlen(by), one->by, sizeof(one->by));
}

/* Takes one lock after the other: both are leaves. */
void touches_copy(struct touches *to, struct touches *from)
{
	struct touch_record seen[TOUCH_COUNT];

	{
		auto_unlock struct lock *held = lock_take(&from->mu);
		memcpy(seen, from->of, sizeof(seen));
	}
	auto_unlock struct lock *held = lock_take(&to->mu);
	memcpy(to->of, seen, sizeof(seen));
}

bool touches_to_json(struct touches *t, json_t **ret)
{
	static const char *const names[] = {
		"typed", "ran", "controlled", "wrote", "saved", "restored", "forked", "forwarded"};
	auto_unlock struct lock *held = lock_take(&t->mu);
	auto_json json_t *list = NULL;

	static_assert(ARRAY_LEN(names) == TOUCH_COUNT, "a name for each");
	for (unsigned i = 0; i < TOUCH_COUNT; i++) {
		const struct touch_record *one = &t->of[i];

		if (!one->count)
			continue;
		if (!list)
			list = json_array();
		if (json_array_append_new(
			    list, json_pack("{s:s, s:I, s:I, s:I, s:s}", "what", names[i], "count",
					  (json_int_t)one->count, "first", (json_int_t)one->first,
					  "last", (json_int_t)one->last, "by", one->by)) < 0)
			return false;
	}
	*ret = take_ptr(&list);
	return true;
}
