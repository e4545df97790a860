#include "cli/format.h"

#include <string.h>

#include "cli/cli.h"
#include "util/auto.h"

#define LABEL "label."

char *format_list(const json_t *j, const char *member)
{
	struct err ignored;
	struct buf b = {0};
	const char *key;
	json_t *value;
	size_t i;

	if (json_is_array(j)) {
		json_array_foreach(j, i, value)
			buf_printf(&b, &ignored, "%s%s", i ? "," : "", get_str(value, member));
	} else {
		json_object_foreach((json_t *)j, key, value)
			buf_printf(&b, &ignored, "%s%s=%s", b.len ? "," : "", key,
				json_is_string(value) ? json_string_value(value) : "?");
	}
	return buf_take_str(&b);
}

static char *age_text(const json_t *sandbox)
{
	char age[24];

	text_age(get_num(sandbox, "age"), age);
	return strdup(age);
}

static char *number_text(const json_t *sandbox, const char *name)
{
	char text[32];

	snprintf(text, sizeof(text), "%.0f", get_num(sandbox, name));
	return strdup(text);
}

/* The text of a field, malloc'd and not yet safe to print. */
static int get_field(const char *name, const json_t *sandbox, char **ret, struct err *e)
{
	static const char *const texts[] = {"id", "name", "state", "driver"};
	static const char *const numbers[] = {"created", "owner_pid"};

	*ret = NULL;
	for (unsigned i = 0; i < ARRAY_LEN(texts); i++)
		if (strcmp(name, texts[i]) == 0)
			*ret = strdup(get_str(sandbox, name));
	for (unsigned i = 0; i < ARRAY_LEN(numbers); i++)
		if (strcmp(name, numbers[i]) == 0)
			*ret = number_text(sandbox, name);
	if (strcmp(name, "age") == 0)
		*ret = age_text(sandbox);
	else if (strcmp(name, "vms") == 0)
		*ret = format_list(json_object_get(sandbox, "vms"), "name");
	else if (strcmp(name, "labels") == 0)
		*ret = format_list(json_object_get(sandbox, "labels"), NULL);
	else if (strncmp(name, LABEL, strlen(LABEL)) == 0)
		*ret = strdup(get_str(json_object_get(sandbox, "labels"), name + strlen(LABEL)));
	if (*ret)
		return 0;
	return args_fail(e,
		"--format: no field {%s}; there are id, name, state, driver, age, created, "
		"owner_pid, vms, labels and label.NAME",
		name);
}

/* at: behind the "{". Returns where the format goes on; NULL on failure. */
static const char *add_field(const char *at, const json_t *sandbox, struct buf *out, struct err *e)
{
	const char *end = strchr(at, '}');
	auto_free char *name = end ? strndup(at, (size_t)(end - at)) : NULL;
	auto_free char *text = NULL, *safe = NULL;

	if (!end) {
		args_fail(e, "--format: a { without its }");
		return NULL;
	}
	if (!name) {
		err_oom(e);
		return NULL;
	}
	if (get_field(name, sandbox, &text, e) < 0)
		return NULL;
	safe = text_safe(text);
	if (!safe) {
		err_oom(e);
		return NULL;
	}
	buf_put(out, safe, strlen(safe));
	return end + 1;
}

int format_sandbox(const char *format, const json_t *sandbox, struct buf *out, struct err *e)
{
	for (const char *at = format; *at;) {
		if (*at == '{') {
			at = add_field(at + 1, sandbox, out, e);
			if (!at)
				return -1;
		} else if (at[0] == '\\' && (at[1] == 't' || at[1] == 'n')) {
			buf_put(out, at[1] == 't' ? "\t" : "\n", 1);
			at += 2;
		} else {
			buf_put(out, at++, 1);
		}
	}
	buf_put(out, "\n", 1);
	return buf_check(out, e);
}
