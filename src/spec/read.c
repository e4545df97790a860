#include "spec/read.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spec/text.h"
#include "spec/spec.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"

/* The place of a member in the spec, as a chain up the stack. Only an error writes it out. */
struct place {
	const struct place *up;
	const char *name; /* NULL: an item of a list; "": the spec itself */
	size_t index;
};

static size_t place_write(const struct place *p, char *out, size_t size)
{
	size_t used = p->up ? place_write(p->up, out, size) : 0;
	int n;

	if (!p->name)
		n = snprintf(out + used, size - used, "[%zu]", p->index);
	else
		n = snprintf(out + used, size - used, "%s%s", used ? "." : "", p->name);
	return used + (size_t)n < size ? used + (size_t)n : size - 1;
}

static const char *place_text(const struct place *p, char buf[static SPEC_PLACE_MAX])
{
	place_write(p, buf, SPEC_PLACE_MAX);
	return buf[0] ? buf : "spec";
}

#define bad(e, place, ...) spec_err(e, place_text(place, (char[SPEC_PLACE_MAX]){0}), __VA_ARGS__)

static int read_field(
	const struct field *f, const json_t *j, const struct place *at, void *base, struct err *e);
static int read_shape(
	const struct shape *s, const json_t *j, const struct place *at, void *out, struct err *e);

static const char *json_type_text(const json_t *j)
{
	switch (json_typeof(j)) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "a list";
	case JSON_STRING:
		return "a string";
	case JSON_INTEGER:
		return "a whole number";
	case JSON_REAL:
		return "a number with a fraction";
	case JSON_TRUE:
		return "true";
	case JSON_FALSE:
		return "false";
	case JSON_NULL:
		return "null";
	}
	return "something else";
}

static int wrong_type(const json_t *j, const char *wanted, const struct place *at, struct err *e)
{
	return bad(e, at, "expected %s, got %s", wanted, json_type_text(j));
}

static int read_number(const struct field *f, const json_t *j, const char *wanted,
	const struct place *at, double *ret, struct err *e)
{
	double value;

	if (!json_is_number(j))
		return wrong_type(j, wanted, at, e);
	value = json_number_value(j);
	/* Written so that NaN is refused as well. %.10g shows every limit in the table exactly. */
	if (!(value >= f->min && value <= f->max))
		return bad(e, at, "%.10g is not between %.10g and %.10g", value, f->min, f->max);
	*ret = value;
	return 0;
}

static int read_whole(const struct field *f, const json_t *j, const char *wanted,
	const struct place *at, unsigned *ret, struct err *e)
{
	double value = 0;

	/* 2048.0 is as whole as 2048, in JSON Schema as well. */
	if (json_is_real(j) && floor(json_real_value(j)) != json_real_value(j))
		return wrong_type(j, wanted, at, e);
	if (read_number(f, j, wanted, at, &value, e) < 0)
		return -1;
	*ret = (unsigned)value;
	return 0;
}

/* A checked copy of a JSON string. */
static int read_text(const struct field *f, const json_t *j, const char *wanted,
	const struct place *at, char **ret, struct err *e)
{
	const char *s = json_string_value(j);
	char *copy;

	if (!s)
		return wrong_type(j, wanted, at, e);
	if (text_check(f, s, json_string_length(j), e) < 0)
		return err_wrap(e, "%s", place_text(at, (char[SPEC_PLACE_MAX]){0}));
	copy = strdup(s);
	if (!copy)
		return err_oom(e);
	*ret = copy;
	return 0;
}

static int read_choice(
	const struct choices *c, const json_t *j, const struct place *at, void *out, struct err *e)
{
	char list[CHOICES_TEXT_MAX], shown[64];
	int value;

	if (!json_is_string(j))
		return wrong_type(j, "a string", at, e);
	value = choices_find(c, json_string_value(j));
	if (value >= 0) {
		memcpy(out, &value, sizeof(value));
		return 0;
	}
	str_escape(json_string_value(j), json_string_length(j), shown, sizeof(shown));
	return bad(e, at, "\"%s\" is not one of %s", shown, choices_text(c, list, sizeof(list)));
}

static int read_user(
	const struct field *f, const json_t *j, const struct place *at, char **ret, struct err *e)
{
	unsigned uid;

	if (!json_is_number(j))
		return read_text(f, j, "a user name or a uid", at, ret, e);
	if (read_whole(f, j, "a user name or a uid", at, &uid, e) < 0)
		return -1;
	return str_printf(ret, e, "%u", uid);
}

/* IPv4 addresses, networks and MAC addresses. */
static int read_address(
	const struct field *f, const json_t *j, const struct place *at, void *out, struct err *e)
{
	const char *s = json_string_value(j);
	int rc;

	if (!s)
		return wrong_type(j, "a string", at, e);
	if (strlen(s) != json_string_length(j))
		return bad(e, at, "contains a NUL character");
	if (f->kind == FIELD_IPV4)
		rc = ipv4_parse(s, out, e);
	else if (f->kind == FIELD_IPV4_NET)
		rc = ipv4_net_parse(s, out, e);
	else
		rc = mac_parse(s, out, e);
	return rc < 0 ? err_wrap(e, "%s", place_text(at, (char[SPEC_PLACE_MAX]){0})) : 0;
}

static bool deeper_than(const json_t *j, unsigned levels)
{
	const char *key;
	json_t *child;
	size_t i;

	if (!json_is_object(j) && !json_is_array(j))
		return false;
	if (levels == 0)
		return true;
	json_array_foreach((json_t *)j, i, child)
		if (deeper_than(child, levels - 1))
			return true;
	json_object_foreach((json_t *)j, key, child)
		if (deeper_than(child, levels - 1))
			return true;
	return false;
}

static int read_native(const json_t *j, const struct place *at, json_t **ret, struct err *e)
{
	json_t *copy;

	if (!json_is_object(j))
		return wrong_type(j, "an object", at, e);
	if (deeper_than(j, SPEC_NATIVE_DEPTH_MAX))
		return bad(e, at, "is nested more than %d levels deep", SPEC_NATIVE_DEPTH_MAX);
	copy = json_deep_copy(j);
	if (!copy)
		return err_oom(e);
	*ret = copy;
	return 0;
}

static int read_text_map(
	const struct field *f, const json_t *j, const struct place *at, json_t **ret, struct err *e)
{
	const char *name;
	json_t *value;

	if (!json_is_object(j))
		return wrong_type(j, "an object", at, e);
	if ((double)json_object_size(j) > f->max)
		return bad(e, at, "has %zu members; at most %.0f are allowed", json_object_size(j),
			f->max);
	json_object_foreach((json_t *)j, name, value) {
		auto_free char *checked = NULL;
		char shown[64];
		struct place member_at = {.up = at, .name = shown};

		str_escape(name, strlen(name), shown, sizeof(shown));
		if (text_check(f->key, name, strlen(name), e) < 0)
			return err_wrap(e, "%s", place_text(at, (char[SPEC_PLACE_MAX]){0}));
		if (read_text(f->item, value, "a string", &member_at, &checked, e) < 0)
			return -1;
	}
	*ret = json_deep_copy(j);
	return *ret ? 0 : err_oom(e);
}

static int read_list(
	const struct field *f, const json_t *j, const struct place *at, void *base, struct err *e)
{
	size_t n = json_array_size(j), item_size = field_size(f->item);
	char **items = (char **)((char *)base + f->at);

	if (!json_is_array(j))
		return wrong_type(j, "a list", at, e);
	if (f->given_at)
		*(bool *)((char *)base + f->given_at) = true;
	if ((double)n < f->min)
		return bad(e, at, "is empty");
	if ((double)n > f->max)
		return bad(e, at, "has %zu entries; at most %.0f are allowed", n, f->max);
	if (n == 0)
		return 0;
	*items = calloc(n, item_size);
	if (!*items)
		return err_oom(e);
	*(size_t *)((char *)base + f->count_at) = n; /* from here on shape_free() frees the items */
	for (size_t i = 0; i < n; i++) {
		struct place item_at = {.up = at, .index = i};

		if (read_field(f->item, json_array_get(j, i), &item_at, *items + i * item_size, e) <
			0)
			return -1;
	}
	return 0;
}

static int read_object(
	const struct shape *s, const json_t *j, const struct place *at, void **ret, struct err *e)
{
	*ret = calloc(1, s->size);
	if (!*ret)
		return err_oom(e);
	return read_shape(s, j, at, *ret, e);
}

/* base is the struct that the field is in; for an item of a list, whose offset is 0, the item. */
static int read_field(
	const struct field *f, const json_t *j, const struct place *at, void *base, struct err *e)
{
	void *out = (char *)base + f->at;

	switch (f->kind) {
	case FIELD_BOOL:
		if (!json_is_boolean(j))
			return wrong_type(j, "true or false", at, e);
		*(bool *)out = json_is_true(j);
		return 0;
	case FIELD_WHOLE:
		return read_whole(f, j, "a whole number", at, out, e);
	case FIELD_NUMBER:
		return read_number(f, j, "a number", at, out, e);
	case FIELD_TEXT:
		return read_text(f, j, "a string", at, out, e);
	case FIELD_CHOICE:
		return read_choice(f->choices, j, at, out, e);
	case FIELD_USER:
		return read_user(f, j, at, out, e);
	case FIELD_IPV4:
	case FIELD_IPV4_NET:
	case FIELD_MAC:
		return read_address(f, j, at, out, e);
	case FIELD_NATIVE:
		return read_native(j, at, out, e);
	case FIELD_TEXT_MAP:
		return read_text_map(f, j, at, out, e);
	case FIELD_PART:
		return read_shape(f->shape, j, at, out, e);
	case FIELD_OBJECT:
		return read_object(f->shape, j, at, out, e);
	case FIELD_LIST:
		return read_list(f, j, at, base, e);
	}
	return err_set(e, ERR_INTERNAL, "a field of no kind");
}

static int read_member(
	const struct field *f, const json_t *j, const struct place *at, void *base, struct err *e)
{
	auto_json json_t *preset = NULL;
	bool null_stands = f->kind == FIELD_PART && f->shape->null_stands;

	if (!j && f->required)
		return bad(e, at, "is missing");
	if (j && (!json_is_null(j) || f->required || null_stands))
		return read_field(f, j, at, base, e);
	if (!f->preset)
		return 0;
	preset = json_loads(f->preset, JSON_DECODE_ANY, NULL);
	if (!preset)
		return err_oom(e);
	return read_field(f, preset, at, base, e);
}

static int check_members(
	const struct shape *s, const json_t *j, const struct place *at, struct err *e)
{
	const char *name;
	size_t given = 0;
	json_t *member;

	json_object_foreach((json_t *)j, name, member) {
		struct place member_at = {.up = at, .name = name};
		char shown[64];
		const char *near;

		given += !json_is_null(member);
		if (shape_find(s, name))
			continue;
		str_escape(name, strlen(name), shown, sizeof(shown));
		member_at.name = shown;
		near = text_nearest_member(s, name);
		if (near)
			return bad(e, &member_at, "unknown member; did you mean \"%s\"?", near);
		return bad(e, &member_at, "unknown member");
	}
	if (s->one_member && given != 1)
		return bad(e, at, "exactly one of its members must be given, not %zu", given);
	return 0;
}

static int read_members(
	const struct shape *s, const json_t *j, const struct place *at, void *out, struct err *e)
{
	if (check_members(s, j, at, e) < 0)
		return -1;
	for (size_t i = 0; i < s->n_fields; i++) {
		const struct field *f = &s->fields[i];
		struct place member_at = {.up = at, .name = f->name};

		if (read_member(f, json_object_get(j, f->name), &member_at, out, e) < 0)
			return -1;
	}
	if (s->choices)
		memcpy(out, &s->object_choice, sizeof(s->object_choice));
	return 0;
}

static int read_shape(
	const struct shape *s, const json_t *j, const struct place *at, void *out, struct err *e)
{
	char wanted[CHOICES_TEXT_MAX];

	if (json_is_object(j))
		return read_members(s, j, at, out, e);
	if (json_is_null(j) && s->null_stands) {
		memcpy(out, &s->null_choice, sizeof(s->null_choice));
		return 0;
	}
	if (json_is_string(j) && s->choices)
		return read_choice(s->choices, j, at, out, e);
	if (json_is_string(j) && s->short_for)
		return read_field(shape_find(s, s->short_for), j, at, out, e);
	if (s->choices) {
		choices_text(s->choices, wanted, sizeof(wanted));
		return bad(e, at, "expected %s or an object, got %s", wanted, json_type_text(j));
	}
	return wrong_type(j, s->short_for ? "a string or an object" : "an object", at, e);
}

int shape_read(const struct shape *s, const json_t *j, void *out, struct err *e)
{
	struct place top = {.name = ""};

	return read_shape(s, j, &top, out, e);
}
