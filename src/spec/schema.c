#include <stdlib.h>
#include <string.h>

#include "spec/fields.h"
#include "spec/spec.h"
#include "util/auto.h"
#include "util/json.h"

#define CONTROL           "[\\u0000-\\u001f\\u007f-\\u009f]"
#define CONTROL_BUT_LINES "[\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f]"

#define OCTET        "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define IPV4         OCTET "(\\." OCTET "){3}"
#define IPV4_PATTERN "^" IPV4 "$"
#define NET_PATTERN  "^" IPV4 "/(3[0-2]|[12]?[0-9])$"
#define MAC_FIRST    "[0-9A-Fa-f][02468ACEace]"
#define MAC_PAIR     "[0-9A-Fa-f]{2}"
#define MAC_PATTERN                                                                                \
	"^" MAC_FIRST "((:" MAC_PAIR "){5}|(-" MAC_PAIR "){5}|" MAC_PAIR "(\\." MAC_PAIR MAC_PAIR  \
	"){2})$"

static int value_schema(const struct field *f, json_t *defs, json_t **ret, struct err *e);

static int put(json_t *object, const char *name, json_t *value, struct err *e)
{
	return json_object_set_new(object, name, value) < 0 ? err_oom(e) : 0;
}

static int append(json_t *list, json_t *value, struct err *e)
{
	return json_array_append_new(list, value) < 0 ? err_oom(e) : 0;
}

/* Whole limits are written without ".0": all in the table are whole but one. */
static json_t *limit_json(double value)
{
	json_int_t whole = (json_int_t)value;

	return (double)whole == value ? json_integer(whole) : json_real(value);
}

static int choices_schema(const struct choices *c, json_t **ret, struct err *e)
{
	auto_json json_t *schema = NULL;
	json_t *list;

	if (json_make(&schema, e, "{s:[]}", "enum") < 0)
		return -1;
	list = json_object_get(schema, "enum");
	for (size_t i = 0; i < c->n; i++)
		if (c->list[i] && append(list, json_string(c->list[i]), e) < 0)
			return -1;
	*ret = take_ptr(&schema);
	return 0;
}

static int text_schema(const struct field *f, json_t **ret, struct err *e)
{
	bool user = f->kind == FIELD_USER;
	double min = user ? 1 : f->min, max = user ? SPEC_USER_NAME_MAX : f->max;

	const struct text_class *text = f->text;

	if (f->choices)
		return choices_schema(f->choices, ret, e);
	if (!text->free)
		return json_make(ret, e, "{s:s, s:o, s:o, s:s}", "type", "string", "minLength",
			limit_json(min), "maxLength", limit_json(max), "pattern", text->pattern);
	/* Values that are no strings match every pattern: without the inner type, "not" would
	 * refuse null. */
	return json_make(ret, e, "{s:s, s:o, s:o, s:s*, s:{s:s, s:s}}", "type", "string",
		"minLength", limit_json(min), "maxLength", limit_json(max), "pattern",
		text->pattern, "not", "type", "string", "pattern",
		text->many_lines ? CONTROL_BUT_LINES : CONTROL);
}

static int number_schema(const struct field *f, const char *type, json_t **ret, struct err *e)
{
	return json_make(ret, e, "{s:s, s:o, s:o}", "type", type, "minimum", limit_json(f->min),
		"maximum", limit_json(f->max));
}

static int user_schema(const struct field *f, json_t **ret, struct err *e)
{
	auto_json json_t *name = NULL, *uid = NULL;

	if (text_schema(f, &name, e) < 0 || number_schema(f, "integer", &uid, e) < 0)
		return -1;
	return json_make(ret, e, "{s:[O, O]}", "anyOf", name, uid);
}

static int map_schema(const struct field *f, json_t **ret, struct err *e)
{
	auto_json json_t *key = NULL, *item = NULL;

	if (text_schema(f->key, &key, e) < 0 || text_schema(f->item, &item, e) < 0)
		return -1;
	return json_make(ret, e, "{s:s, s:O, s:O, s:o}", "type", "object", "propertyNames", key,
		"additionalProperties", item, "maxProperties", limit_json(f->max));
}

static int list_schema(const struct field *f, json_t *defs, json_t **ret, struct err *e)
{
	auto_json json_t *item = NULL;

	if (value_schema(f->item, defs, &item, e) < 0)
		return -1;
	return json_make(ret, e, "{s:s, s:O, s:o, s:o}", "type", "array", "items", item, "minItems",
		limit_json(f->min), "maxItems", limit_json(f->max));
}

/* Exactly one member: it is there, and it is not null, which would be as good as absent. */
static int one_member_schema(const struct shape *s, json_t *object, struct err *e)
{
	json_t *alternatives = json_array();

	if (put(object, "oneOf", alternatives, e) < 0)
		return -1;
	for (size_t i = 0; i < s->n_fields; i++) {
		const char *name = s->fields[i].name;
		json_t *alternative = NULL;

		if (json_make(&alternative, e, "{s:[s], s:{s:{s:{s:s}}}}", "required", name,
			    "properties", name, "not", "type", "null") < 0 ||
			append(alternatives, alternative, e) < 0)
			return -1;
	}
	return 0;
}

/* Lets null stand for "not given". */
static int allow_null(json_t **schema, struct err *e)
{
	json_t *choices = json_object_get(*schema, "enum"),
	       *type = json_object_get(*schema, "type");
	json_t *either = NULL;

	if (choices)
		return append(choices, json_null(), e);
	if (type) {
		if (json_make(&either, e, "[O, s]", type, "null") < 0)
			return -1;
		return put(*schema, "type", either, e);
	}
	if (json_make(&either, e, "{s:[O, {s:s}]}", "anyOf", *schema, "type", "null") < 0)
		return -1;
	json_decref(*schema);
	*schema = either;
	return 0;
}

static int member_schema(const struct field *f, json_t *defs, json_t *properties, struct err *e)
{
	auto_json json_t *schema = NULL;
	bool null_stands = f->kind == FIELD_PART && f->shape->null_stands;

	if (value_schema(f, defs, &schema, e) < 0)
		return -1;
	if (!f->required && !null_stands && allow_null(&schema, e) < 0)
		return -1;
	if (f->help && put(schema, "description", json_string(f->help), e) < 0)
		return -1;
	if (f->preset &&
		put(schema, "default", json_loads(f->preset, JSON_DECODE_ANY, NULL), e) < 0)
		return -1;
	return put(properties, f->name, take_ptr(&schema), e);
}

/* The object form of a shape. */
static int object_schema(const struct shape *s, json_t *defs, json_t **ret, struct err *e)
{
	auto_json json_t *schema = NULL;
	json_t *properties = NULL, *required = NULL;

	if (json_make(&schema, e, "{s:s, s:{}, s:[], s:b}", "type", "object", "properties",
		    "required", "additionalProperties", false) < 0)
		return -1;
	properties = json_object_get(schema, "properties");
	required = json_object_get(schema, "required");
	for (size_t i = 0; i < s->n_fields; i++) {
		const struct field *f = &s->fields[i];

		if (member_schema(f, defs, properties, e) < 0 ||
			(f->required && append(required, json_string(f->name), e) < 0))
			return -1;
	}
	if (s->one_member && one_member_schema(s, schema, e) < 0)
		return -1;
	*ret = take_ptr(&schema);
	return 0;
}

/* The object form and the short forms. */
static int shape_schema(const struct shape *s, json_t *defs, json_t **ret, struct err *e)
{
	auto_json json_t *object = NULL, *brief = NULL, *schema = NULL;

	if (object_schema(s, defs, &object, e) < 0)
		return -1;
	if (s->choices && choices_schema(s->choices, &brief, e) < 0)
		return -1;
	if (s->short_for && value_schema(shape_find(s, s->short_for), defs, &brief, e) < 0)
		return -1;
	if (!brief)
		schema = take_ptr(&object);
	else if (json_make(&schema, e, "{s:[O, O]}", "anyOf", brief, object) < 0)
		return -1;
	if (s->null_stands && allow_null(&schema, e) < 0)
		return -1;
	if (put(schema, "description", json_string(s->help), e) < 0)
		return -1;
	*ret = take_ptr(&schema);
	return 0;
}

/* A reference to a shape's schema, which is added to the definitions if it is not there yet. */
static int reference(const struct shape *s, json_t *defs, json_t **ret, struct err *e)
{
	json_t *schema = NULL;

	if (!json_object_get(defs, s->title) &&
		(shape_schema(s, defs, &schema, e) < 0 || put(defs, s->title, schema, e) < 0))
		return -1;
	return json_make(ret, e, "{s:s+}", "$ref", "#/$defs/", s->title);
}

static int value_schema(const struct field *f, json_t *defs, json_t **ret, struct err *e)
{
	switch (f->kind) {
	case FIELD_BOOL:
		return json_make(ret, e, "{s:s}", "type", "boolean");
	case FIELD_WHOLE:
		return number_schema(f, "integer", ret, e);
	case FIELD_NUMBER:
		return number_schema(f, "number", ret, e);
	case FIELD_TEXT:
		return text_schema(f, ret, e);
	case FIELD_CHOICE:
		return choices_schema(f->choices, ret, e);
	case FIELD_USER:
		return user_schema(f, ret, e);
	case FIELD_IPV4:
		return json_make(ret, e, "{s:s, s:s}", "type", "string", "pattern", IPV4_PATTERN);
	case FIELD_IPV4_NET:
		return json_make(ret, e, "{s:s, s:s}", "type", "string", "pattern", NET_PATTERN);
	case FIELD_MAC:
		return json_make(ret, e, "{s:s, s:s}", "type", "string", "pattern", MAC_PATTERN);
	case FIELD_NATIVE:
		return json_make(ret, e, "{s:s}", "type", "object");
	case FIELD_TEXT_MAP:
		return map_schema(f, ret, e);
	case FIELD_PART:
	case FIELD_OBJECT:
		return reference(f->shape, defs, ret, e);
	case FIELD_LIST:
		return list_schema(f, defs, ret, e);
	}
	return err_set(e, ERR_INTERNAL, "a field of no kind");
}

int spec_schema(char **ret, struct err *e)
{
	auto_json json_t *defs = json_object(), *body = NULL, *schema = NULL;
	char *text;

	if (!defs)
		return err_oom(e);
	if (shape_schema(&spec_shape, defs, &body, e) < 0 ||
		json_make(&schema, e, "{s:s, s:s}", "$schema",
			"https://json-schema.org/draft/2020-12/schema", "title",
			"moat sandbox") < 0)
		return -1;
	if (json_object_update(schema, body) < 0 || json_object_set(schema, "$defs", defs) < 0)
		return err_oom(e);
	text = json_dumps(schema, JSON_INDENT(2));
	if (!text)
		return err_oom(e);
	*ret = text;
	return 0;
}
