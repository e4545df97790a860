#include "cli/listing/listing.h"

#include <string.h>

#include "util/auto.h"

enum colour listing_colour(const char *state)
{
	return strcmp(state, "running") == 0                                ? COLOUR_GREEN
	       : strcmp(state, "failed") == 0 || strcmp(state, "dead") == 0 ? COLOUR_RED
									    : COLOUR_YELLOW;
}

const char *listing_state(const json_t *sb)
{
	const json_t *vms = json_object_get(sb, "vms"), *vm;
	const char *state = get_str(sb, "state");
	size_t dead = 0, i;

	json_array_foreach(vms, i, vm)
		dead += strcmp(get_str(vm, "state"), "dead") == 0;
	if (!dead || strcmp(state, "running") != 0)
		return state;
	return dead == json_array_size(vms) ? "dead" : "part dead";
}

json_t *listing_labels(const json_t *sb)
{
	static const char *const first[] = {"task", "sample", "epoch"};
	json_t *shown = json_object(), *value;
	const json_t *labels = json_object_get(sb, "labels");
	const char *key;

	for (unsigned i = 0; i < ARRAY_LEN(first); i++)
		if ((value = json_object_get(labels, first[i])))
			json_object_set(shown, first[i], value);
	json_object_foreach((json_t *)labels, key, value)
		if (strcmp(key, "name") != 0 || strcmp(get_str(sb, "name"), get_str(labels, key)))
			json_object_set(shown, key, value);
	return shown;
}

bool listing_wants(const json_t *sb, const json_t *wanted)
{
	const json_t *labels = json_object_get(sb, "labels");
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)wanted, key, value)
		if (!json_equal(json_object_get(labels, key), value))
			return false;
	return true;
}
