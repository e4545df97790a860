#include "cli/image/steps.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "spec/yaml.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"
#include "util/system/io.h"

/* The list of that name in steps, made if it is missing. NULL: out of memory. */
static json_t *list_of(json_t *steps, const char *name)
{
	json_t *list = json_object_get(steps, name);

	if (list)
		return list;
	list = json_array();
	return list && json_object_set_new(steps, name, list) == 0 ? list : NULL;
}

static int add(json_t *steps, const char *name, const char *text, size_t n, struct err *e)
{
	json_t *list = list_of(steps, name), *one = json_stringn(text, n);

	if (!one)
		return err_set(e, ERR_INVALID, "%s: not UTF-8", name);
	return !list || json_array_append_new(list, one) < 0 ? err_oom(e) : 0;
}

/* Adds a file of this machine. dir: what its path is relative to. The daemon has another working
 * directory. */
static int add_path(
	json_t *steps, const char *name, const char *dir, const char *path, size_t n, struct err *e)
{
	auto_free char *joined = NULL, *full = NULL;

	if (path[0] == '/' ? str_printf(&joined, e, "%.*s", (int)n, path) < 0
			   : str_printf(&joined, e, "%s/%.*s", dir, (int)n, path) < 0)
		return -1;
	full = realpath(joined, NULL);
	if (!full)
		return err_sys(e, errno, "%s: %.*s", name, (int)n, path);
	return add(steps, name, full, strlen(full), e);
}

static int add_copy(json_t *steps, const char *dir, const char *pair, struct err *e)
{
	const char *colon = strrchr(pair, ':');

	if (!colon || colon == pair || colon[1] != '/')
		return args_fail(e, "copy: \"%s\" is not FILE:PATH, with an absolute PATH", pair);
	if (add_path(steps, "copy", dir, pair, (size_t)(colon - pair), e) < 0)
		return -1;
	return add(steps, "copy", colon + 1, strlen(colon + 1), e);
}

/* Adds names between commas or blanks. */
static int add_packages(json_t *steps, const char *names, struct err *e)
{
	static const char between[] = ", \t\n";

	for (const char *at = names; *(at += strspn(at, between));) {
		size_t n = strcspn(at, between);

		if (add(steps, "packages", at, n, e) < 0)
			return -1;
		at += n;
	}
	return 0;
}

int steps_from_options(struct cli *cli, json_t *steps, struct err *e)
{
	const char *value;
	uint64_t gb = 0;
	unsigned at = 0;

	while ((value = args_each(cli->args, "copy", &at)))
		if (add_copy(steps, ".", value, e) < 0)
			return -1;
	at = 0;
	while ((value = args_each(cli->args, "packages", &at)))
		if (add_packages(steps, value, e) < 0)
			return -1;
	at = 0;
	while ((value = args_each(cli->args, "run", &at)))
		if (add_path(steps, "run", ".", value, strlen(value), e) < 0)
			return -1;
	if (args_number(cli->args, "disk-gb", INT_MAX, &gb, e) < 0)
		return -1;
	if (gb && json_object_set_new(steps, "disk_gb", json_integer((json_int_t)gb)) < 0)
		return err_oom(e);
	return 0;
}

bool steps_is_file(const char *operand)
{
	return str_ends(operand, ".yaml") || str_ends(operand, ".yml") ||
	       str_ends(operand, ".json");
}

/* A text, or a list of texts, is given to add_one each. */
static int each_text(const json_t *value, const char *name, json_t *steps, const char *dir,
	int (*add_one)(json_t *, const char *, const char *, struct err *), struct err *e)
{
	const json_t *one;
	size_t i;

	if (json_is_string(value))
		return add_one(steps, dir, json_string_value(value), e);
	if (!json_is_array(value))
		return value ? err_set(e, ERR_INVALID, "%s: not a list", name) : 0;
	json_array_foreach((json_t *)value, i, one) {
		if (!json_is_string(one))
			return err_set(e, ERR_INVALID, "%s[%zu]: not a text", name, i);
		if (add_one(steps, dir, json_string_value(one), e) < 0)
			return err_wrap(e, "%s[%zu]", name, i);
	}
	return 0;
}

static int add_script(json_t *steps, const char *dir, const char *path, struct err *e)
{
	return add_path(steps, "run", dir, path, strlen(path), e);
}

static int add_package(json_t *steps, const char *dir, const char *names, struct err *e)
{
	(void)dir;
	return add_packages(steps, names, e);
}

static int read_members(json_t *j, const char *path, json_t *steps, char **ret_base, struct err *e)
{
	json_t *packages = NULL, *copy = NULL, *run = NULL;
	const char *base, *name = NULL, *dir;
	auto_free char *file = strdup(path), *parent = strdup(path);
	json_int_t disk_gb = 0;
	char *end;

	if (!file || !parent)
		return err_oom(e);
	if (json_get(j, "the file", e, "{s:s, s?s, s?o, s?o, s?o, s?I}", "base", &base, "name",
		    &name, "packages", &packages, "copy", &copy, "run", &run, "disk_gb",
		    &disk_gb) < 0)
		return -1;
	if (!name) {
		name = basename(file);
		end = strrchr(name, '.');
		*end = 0; /* steps_is_file has seen the ending */
	}
	if (json_object_set_new(steps, "name", json_string(name)) < 0 ||
		(disk_gb && json_object_set_new(steps, "disk_gb", json_integer(disk_gb)) < 0))
		return err_oom(e);
	dir = dirname(parent);
	if (each_text(copy, "copy", steps, dir, add_copy, e) < 0 ||
		each_text(packages, "packages", steps, dir, add_package, e) < 0 ||
		each_text(run, "run", steps, dir, add_script, e) < 0)
		return -1;
	return str_dup(base, ret_base, e);
}

int steps_from_file(const char *path, json_t **ret, char **ret_base, struct err *e)
{
	auto_json json_t *j = NULL, *steps = json_object();
	auto_free char *text = NULL, *full = realpath(path, NULL);
	size_t len = 0;

	if (!full)
		return err_sys(e, errno, "%s", path);
	if (!steps)
		return err_oom(e);
	if (file_read(full, SPEC_TEXT_MAX, &text, &len, e) < 0)
		return -1;
	if (spec_text_to_json((struct bytes){(uint8_t *)text, len}, &j, e) < 0 ||
		read_members(j, full, steps, ret_base, e) < 0)
		return err_wrap(e, "%s", path);
	*ret = take_ptr(&steps);
	return 0;
}
