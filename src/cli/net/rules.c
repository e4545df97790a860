#include "cli/net/rules.h"

#include <stdio.h>

#include "util/auto.h"

static const char *const lists[] = {"domains", "cidrs", "ports"};

const char *rules_policy(const json_t *vnet)
{
	const json_t *egress = json_object_get(vnet, "egress");

	return json_is_string(egress) ? json_string_value(egress) : "allow";
}

static const json_t *list_of(const json_t *vnet, unsigned i)
{
	const json_t *allow = json_object_get(json_object_get(vnet, "egress"), "allow");

	return json_object_get(allow, lists[i]);
}

unsigned rules_count(const json_t *vnet)
{
	size_t n = 0;

	for (unsigned i = 0; i < ARRAY_LEN(lists); i++)
		n += json_array_size(list_of(vnet, i));
	return (unsigned)n;
}

void rules_text(const json_t *vnet, unsigned i, char *out, size_t size)
{
	out[0] = 0;
	for (unsigned l = 0; l < ARRAY_LEN(lists); l++) {
		const json_t *list = list_of(vnet, l), *rule = json_array_get(list, i);

		if (json_is_integer(rule))
			snprintf(out, size, "port %d", (int)json_integer_value(rule));
		else if (json_is_string(rule))
			snprintf(out, size, "%s", json_string_value(rule));
		if (rule)
			return;
		i -= (unsigned)json_array_size(list);
	}
}
