#include "net/dns/refusals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/auto.h"

static const char *const reasons[] = {
	[REFUSED_NAME] = "name not allowed",
	[REFUSED_TYPE] = "type not allowed",
	[REFUSED_ADDRESS] = "leads to a forbidden address",
	[REFUSED_UNOPENED] = "could not be opened",
};

void refusals_add(struct refusals *r, const char *name, enum refused_why why)
{
	int64_t now = time(NULL);
	struct refusal *one;

	r->all++;
	for (uint32_t i = 0; i < r->n; i++) {
		one = &r->list[i];
		if (one->why == why && strcmp(one->name, name) == 0) {
			one->count++;
			one->last = now;
			return;
		}
	}
	one = &r->list[r->next];
	r->next = (r->next + 1) % REFUSALS_MAX;
	r->forgotten += one->count; /* 0 if the entry was unused */
	if (r->n < REFUSALS_MAX)
		r->n++;
	*one = (struct refusal){.why = why, .count = 1, .last = now};
	snprintf(one->name, sizeof(one->name), "%s", name);
}

void refusals_mend(struct refusals *r)
{
	if (r->n > REFUSALS_MAX)
		r->n = REFUSALS_MAX;
	r->next %= REFUSALS_MAX;
	for (uint32_t i = 0; i < REFUSALS_MAX; i++) {
		struct refusal *one = &r->list[i];

		one->name[sizeof(one->name) - 1] = 0;
		for (char *c = one->name; *c; c++)
			if (*c <= ' ' || *c > '~')
				*c = '?';
		if (one->why >= ARRAY_LEN(reasons))
			one->why = REFUSED_NAME;
		if (one->last < 0 || one->last > REFUSED_LAST_MAX)
			one->last = 0;
		one->count &= INT64_MAX;
	}
	r->forgotten &= INT64_MAX;
}

int refusals_list(const struct refusals *r, const char *vnet, json_t *list)
{
	auto_free struct refusals *own = malloc(sizeof(*own));

	if (!own)
		return -1;
	memcpy(own, r, sizeof(*own));
	refusals_mend(own);
	for (uint32_t i = 0; i < own->n; i++) {
		const struct refusal *one = &own->list[i];

		if (json_array_append_new(list,
			    json_pack("{s:s, s:s, s:s, s:I, s:I}", "vnet", vnet, "name", one->name,
				    "why", reasons[one->why], "count", (json_int_t)one->count,
				    "last", (json_int_t)one->last)) < 0)
			return -1;
	}
	if (!own->forgotten)
		return 0;
	return json_array_append_new(
		list, json_pack("{s:s, s:n, s:s, s:I, s:n}", "vnet", vnet, "name", "why",
			      "no room to list them", "count", (json_int_t)own->forgotten, "last"));
}
