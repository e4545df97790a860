#include "cli/settings.h"

#include <stdio.h>

#include "cli/terminal/screen.h"
#include "util/auto.h"

static void print_value(const char *name, const json_t *value)
{
	auto_free char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY);
	auto_free char *safe = text_safe(text ? text : json_string_value(value));

	if (json_is_real(value)) /* seconds: 60, not 60.0 */
		printf("  %-16s %.15g\n", name, json_real_value(value));
	else
		printf("  %-16s %s\n", name, safe && *safe ? safe : "none");
}

void print_settings(const char *title, const json_t *group)
{
	const char *name;
	json_t *value;

	if (!json_is_object(group) || json_object_size(group) == 0)
		return;
	printf("%s\n", title);
	json_object_foreach((json_t *)group, name, value) {
		auto_free char *safe = text_safe(name);

		print_value(safe ? safe : "", value);
	}
}
