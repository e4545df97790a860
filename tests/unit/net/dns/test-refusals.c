/* The record of refused names: what is listed, what is counted, and what a hostile writer of it can
 * do to those who use it. */
#include "net/dns/refusals.h"

#include <string.h>

#include "tap.h"
#include "util/json.h"

static json_int_t count_of(const json_t *list, size_t i)
{
	return json_integer_value(json_object_get(json_array_get(list, i), "count"));
}

static void test_record(void)
{
	static struct refusals r;
	auto_json json_t *few = json_array(), *many = json_array();
	char name[32];

	refusals_add(&r, "a.example", REFUSED_NAME);
	refusals_add(&r, "a.example", REFUSED_NAME);
	refusals_add(&r, "a.example", REFUSED_ADDRESS);
	OK(refusals_list(&r, "lan", few) == 0 && json_array_size(few) == 2);
	OK(count_of(few, 0) == 2 && count_of(few, 1) == 1);
	STR_IS(json_string_value(json_object_get(json_array_get(few, 1), "why")),
		"leads to a forbidden address");
	for (unsigned i = 0; i < 2 * REFUSALS_MAX; i++) {
		snprintf(name, sizeof(name), "n%u.example", i);
		refusals_add(&r, name, REFUSED_NAME);
	}
	/* Those that were replaced by newer ones are still counted. */
	OK(refusals_list(&r, "lan", many) == 0 && json_array_size(many) == REFUSALS_MAX + 1);
	OK(json_is_null(json_object_get(json_array_get(many, REFUSALS_MAX), "name")));
	OK(count_of(many, REFUSALS_MAX) == REFUSALS_MAX + 3 && r.all == 2 * REFUSALS_MAX + 3);
}

/* Whatever was written there, a list can be made of it, and a later writer can go on. */
static void test_hostile(void)
{
	static struct refusals r;
	auto_json json_t *list = json_array();
	const json_t *one;
	const char *name;

	memset(&r, 0xff, sizeof(r));
	OK(refusals_list(&r, "lan", list) == 0 && json_array_size(list) == REFUSALS_MAX + 1);
	one = json_array_get(list, 0);
	name = json_string_value(json_object_get(one, "name"));
	OK(name && strlen(name) == DNS_NAME_MAX - 1 && strspn(name, "?") == DNS_NAME_MAX - 1);
	STR_IS(json_string_value(json_object_get(one, "why")), "name not allowed");
	OK(json_integer_value(json_object_get(one, "count")) > 0);
	OK(json_integer_value(json_object_get(one, "last")) == 0);
	refusals_mend(&r);
	refusals_add(&r, "a.example", REFUSED_NAME);
	OK(r.n == REFUSALS_MAX && r.next < REFUSALS_MAX);
	STR_IS(r.list[(r.next + REFUSALS_MAX - 1) % REFUSALS_MAX].name, "a.example");
}

int main(void)
{
	test_record();
	test_hostile();
	return tap_done();
}
