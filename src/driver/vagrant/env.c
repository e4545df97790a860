#include "driver/vagrant/env.h"

#include <stdlib.h>
#include <string.h>

#include "util/json.h"
#include "util/str.h"

extern char **environ;

int env_of_client(const json_t *access, struct strv *ret, struct err *e)
{
	json_t *env = json_object_get(access, "env"), *value;
	const char *name;

	if (!env) {
		for (char **at = environ; *at; at++)
			strv_add(ret, *at);
		return strv_check(ret, e);
	}
	if (!json_is_object(env))
		return err_set(e, ERR_INVALID, "access.env: expected an object");
	json_object_foreach(env, name, value) {
		if (!json_is_string(value))
			return err_set(e, ERR_INVALID, "access.env: expected strings");
		/* Names that no shell would take are fine, but not those that are no names. */
		if (!*name || strchr(name, '='))
			continue;
		strv_addf(ret, "%s=%s", name, json_string_value(value));
	}
	return json_object_size(env) ? strv_check(ret, e) : 0;
}

static char **env_slot(const struct strv *env, const char *name)
{
	size_t len = strcspn(name, "=");

	for (size_t i = 0; i < env->n; i++)
		if (strncmp(env->v[i], name, len) == 0 && env->v[i][len] == '=')
			return &env->v[i];
	return NULL;
}

const char *env_find(const struct strv *env, const char *name)
{
	char **slot = env_slot(env, name);

	return slot ? strchr(*slot, '=') + 1 : NULL;
}

void env_set(struct strv *env, const char *name, const char *value)
{
	char **slot = env_slot(env, name), *text = NULL;
	struct err ignored;

	if (!slot)
		strv_addf(env, "%s=%s", name, value);
	else if (str_printf(&text, &ignored, "%s=%s", name, value) < 0)
		env->failed = 1;
	else {
		free(*slot);
		*slot = text;
	}
}
