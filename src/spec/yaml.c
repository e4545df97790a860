#include "spec/yaml.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"

#define SHOWN_MAX 64

/*
 * What aliases stand for is copied, and a few aliases of aliases can expand to gigabytes: so many
 * values may come of them in one text, each of so many bytes.
 */
#define ALIASED_MAX   65536
#define TEXT_OF_VALUE 256

struct reader {
	yaml_parser_t parser;
	json_t *anchors; /* object: name -> value; NULL: aliases are refused */
	size_t aliased;  /* how many values aliases have become */
	struct err *e;
};

static void auto_eventp(yaml_event_t *event)
{
	yaml_event_delete(event); /* fine on a zeroed one */
}
#define auto_event __attribute__((cleanup(auto_eventp)))

static void auto_parserp(struct reader *r)
{
	yaml_parser_delete(&r->parser);
	json_decref(r->anchors);
}
#define auto_reader __attribute__((cleanup(auto_parserp)))

/* libyaml counts lines and columns from 0, editors count from 1. */
#define bad(r, mark, fmt, ...)                                                                     \
	err_set((r)->e, ERR_INVALID, "line %zu, column %zu: " fmt, (mark).line + 1,                \
		(mark).column + 1, ##__VA_ARGS__)

static int next_event(struct reader *r, yaml_event_t *ret)
{
	const yaml_parser_t *p = &r->parser;

	if (yaml_parser_parse(&r->parser, ret))
		return 0;
	if (p->error == YAML_MEMORY_ERROR)
		return err_oom(r->e);
	if (p->error == YAML_READER_ERROR) /* bytes that are no text: there is no mark yet */
		return err_set(r->e, ERR_INVALID, "byte %zu: not valid YAML: %s", p->problem_offset,
			p->problem);
	return bad(r, p->problem_mark, "not valid YAML: %s", p->problem);
}

static bool is_one_of(const char *s, const char *const *list)
{
	for (; *list; list++)
		if (strcmp(s, *list) == 0)
			return true;
	return false;
}

static size_t count_digits(const char *s)
{
	return strspn(s, "0123456789");
}

enum number_form { NOT_A_NUMBER, DECIMAL, OCTAL, HEX, REAL, NO_JSON };

/* The kind of number that a plain scalar is in the core schema, if it is one. */
static enum number_form number_form(const char *s)
{
	const char *const beyond[] = {".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN", NULL};
	const char *p = s + (*s == '-' || *s == '+');
	size_t before, after;

	if (s[0] == '0' && s[1] == 'o' && s[2] && s[2 + strspn(s + 2, "01234567")] == '\0')
		return OCTAL;
	if (s[0] == '0' && s[1] == 'x' && s[2] &&
		s[2 + strspn(s + 2, "0123456789abcdefABCDEF")] == '\0')
		return HEX;
	if (is_one_of(p, beyond))
		return NO_JSON;
	before = count_digits(p);
	p += before;
	if (before > 0 && *p == '\0')
		return DECIMAL;
	after = *p == '.' ? count_digits(p + 1) : 0;
	if (before + after == 0)
		return NOT_A_NUMBER;
	if (*p == '.')
		p += 1 + after;
	if (*p == 'e' || *p == 'E') {
		p += 1 + (p[1] == '-' || p[1] == '+');
		if (count_digits(p) == 0)
			return NOT_A_NUMBER;
		p += count_digits(p);
	}
	return *p == '\0' ? REAL : NOT_A_NUMBER;
}

static int read_integer(
	struct reader *r, const char *digits, int base, yaml_mark_t mark, json_t **ret)
{
	char *end;
	long long value;

	errno = 0;
	value = strtoll(digits, &end, base);
	if (errno || *end)
		return bad(r, mark, "the number is too large");
	*ret = json_integer(value);
	return 0;
}

static int read_real(struct reader *r, const char *s, yaml_mark_t mark, json_t **ret)
{
	/* A user's locale may want a comma where YAML has a point. */
	locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	double value;

	if (!c_locale)
		return err_oom(r->e);
	value = strtod_l(s, NULL, c_locale);
	freelocale(c_locale);
	if (!isfinite(value))
		return bad(r, mark, "the number is too large");
	*ret = json_real(value);
	return 0;
}

static int read_plain(struct reader *r, const char *s, yaml_mark_t mark, json_t **ret)
{
	const char *const null_texts[] = {"", "~", "null", "Null", "NULL", NULL};
	const char *const true_texts[] = {"true", "True", "TRUE", NULL};
	const char *const false_texts[] = {"false", "False", "FALSE", NULL};

	if (is_one_of(s, null_texts)) {
		*ret = json_null();
		return 0;
	}
	if (is_one_of(s, true_texts) || is_one_of(s, false_texts)) {
		*ret = json_boolean(is_one_of(s, true_texts));
		return 0;
	}
	switch (number_form(s)) {
	case DECIMAL:
		return read_integer(r, s, 10, mark, ret);
	case OCTAL:
		return read_integer(r, s + 2, 8, mark, ret);
	case HEX:
		return read_integer(r, s + 2, 16, mark, ret);
	case REAL:
		return read_real(r, s, mark, ret);
	case NO_JSON:
		return bad(r, mark, "infinity and not-a-number have no place in a spec");
	case NOT_A_NUMBER:
		*ret = json_string(s);
		return 0;
	}
	return 0;
}

static int check_tag(
	struct reader *r, const yaml_char_t *tag, const char *allowed, yaml_mark_t mark)
{
	char shown[SHOWN_MAX];

	if (!tag || strcmp((const char *)tag, allowed) == 0 || strcmp((const char *)tag, "!") == 0)
		return 0;
	str_escape((const char *)tag, strlen((const char *)tag), shown, sizeof(shown));
	return bad(r, mark, "the tag %s is not supported", shown);
}

static int read_scalar(struct reader *r, const yaml_event_t *event, json_t **ret)
{
	const char *text = (const char *)event->data.scalar.value;
	size_t len = event->data.scalar.length;
	yaml_mark_t mark = event->start_mark;

	if (check_tag(r, event->data.scalar.tag, YAML_STR_TAG, mark) < 0)
		return -1;
	if (strlen(text) != len)
		return bad(r, mark, "the text contains a NUL character");
	/* A tagged scalar is text (only !!str is allowed), even if it looks like a number. */
	if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !event->data.scalar.tag) {
		if (read_plain(r, text, mark, ret) < 0)
			return -1;
	} else {
		*ret = json_string(text);
	}
	return *ret ? 0 : err_oom(r->e);
}

static int read_node(struct reader *r, const yaml_event_t *event, unsigned depth, json_t **ret);

static int read_sequence(struct reader *r, unsigned depth, json_t **ret)
{
	auto_json json_t *list = json_array();

	if (!list)
		return err_oom(r->e);
	for (;;) {
		auto_event yaml_event_t event = {0};
		json_t *item = NULL;

		if (next_event(r, &event) < 0)
			return -1;
		if (event.type == YAML_SEQUENCE_END_EVENT)
			break;
		if (read_node(r, &event, depth, &item) < 0)
			return -1;
		if (json_array_append_new(list, item) < 0)
			return err_oom(r->e);
	}
	*ret = take_ptr(&list);
	return 0;
}

static bool is_merge(const struct reader *r, const yaml_event_t *key)
{
	return r->anchors && key->type == YAML_SCALAR_EVENT &&
	       key->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
	       strcmp((const char *)key->data.scalar.value, "<<") == 0;
}

/* What "<<" names: one mapping, or several of which earlier ones win. They are kept in ret_merged,
 * because members that are written out win over all of them, wherever those stand. */
static int read_merge(
	struct reader *r, yaml_mark_t mark, unsigned depth, json_t *ret_merged, struct err *e)
{
	auto_event yaml_event_t event = {0};
	auto_json json_t *value = NULL, *list = NULL;
	json_t *one;
	size_t i;

	if (next_event(r, &event) < 0 || read_node(r, &event, depth, &value) < 0)
		return -1;
	list = json_is_array(value) ? json_incref(value) : json_pack("[O]", value);
	json_array_foreach(list, i, one) {
		if (!json_is_object(one))
			return bad(r, mark, "\"<<\" takes a mapping, or a list of them");
		if (json_object_update_missing(ret_merged, one) < 0)
			return err_oom(e);
	}
	return list ? 0 : err_oom(e);
}

/* Takes the key from its event, reads the value that follows it, and adds both to the object. */
static int read_pair(struct reader *r, const yaml_event_t *key, unsigned depth, json_t *object)
{
	auto_event yaml_event_t event = {0};
	const char *name = (const char *)key->data.scalar.value;
	json_t *value = NULL;
	char shown[SHOWN_MAX];

	if (key->type != YAML_SCALAR_EVENT)
		return bad(r, key->start_mark, "the name of a member must be plain text");
	if (strlen(name) != key->data.scalar.length)
		return bad(r, key->start_mark, "the text contains a NUL character");
	if (json_object_get(object, name)) {
		str_escape(name, strlen(name), shown, sizeof(shown));
		return bad(r, key->start_mark, "\"%s\" is there twice", shown);
	}
	if (next_event(r, &event) < 0 || read_node(r, &event, depth, &value) < 0)
		return -1;
	return json_object_set_new(object, name, value) < 0 ? err_oom(r->e) : 0;
}

static int read_mapping(struct reader *r, unsigned depth, json_t **ret)
{
	auto_json json_t *object = json_object(), *merged = json_object();

	if (!object || !merged)
		return err_oom(r->e);
	for (;;) {
		auto_event yaml_event_t key = {0};

		if (next_event(r, &key) < 0)
			return -1;
		if (key.type == YAML_MAPPING_END_EVENT)
			break;
		if (is_merge(r, &key)) {
			if (read_merge(r, key.start_mark, depth, merged, r->e) < 0)
				return -1;
		} else if (read_pair(r, &key, depth, object) < 0) {
			return -1;
		}
	}
	if (json_object_update_missing(object, merged) < 0)
		return err_oom(r->e);
	*ret = take_ptr(&object);
	return 0;
}

/* How many values there are in j, itself among them; a long text counts as several. levels: how
 * deep it may be at most. */
static size_t count_values(const json_t *j, unsigned levels, bool *ret_deep)
{
	const char *key;
	json_t *child;
	size_t i, n = 1;

	if (!json_is_object(j) && !json_is_array(j))
		return 1 + json_string_length(j) / TEXT_OF_VALUE;
	if (levels == 0) {
		*ret_deep = true;
		return 1;
	}
	json_array_foreach((json_t *)j, i, child)
		n += count_values(child, levels - 1, ret_deep);
	json_object_foreach((json_t *)j, key, child)
		n += strlen(key) / TEXT_OF_VALUE + count_values(child, levels - 1, ret_deep);
	return n;
}

static int read_alias(struct reader *r, const yaml_event_t *event, unsigned depth, json_t **ret)
{
	const char *name = (const char *)event->data.alias.anchor;
	const json_t *value;
	bool deep = false;

	if (!r->anchors)
		return bad(r, event->start_mark, "aliases (*name) are not supported; write it out");
	value = json_object_get(r->anchors, name);
	if (!value)
		return bad(r, event->start_mark, "there is no anchor &%.60s before it", name);
	r->aliased += count_values(value, depth, &deep);
	if (deep)
		return bad(r, event->start_mark, "nested more than %d levels deep", SPEC_DEPTH_MAX);
	if (r->aliased > ALIASED_MAX)
		return bad(r, event->start_mark, "aliases stand for more than %d values in all",
			ALIASED_MAX);
	*ret = json_deep_copy(value);
	return *ret ? 0 : err_oom(r->e);
}

/* Remembers what an anchor names. */
static int keep_anchor(struct reader *r, const yaml_char_t *anchor, const json_t *value)
{
	if (!anchor || !r->anchors)
		return 0;
	r->aliased += 1; /* so is a text of nothing but anchors bounded */
	return json_object_set_new(r->anchors, (const char *)anchor, json_deep_copy(value)) < 0
		       ? err_oom(r->e)
		       : 0;
}

static const yaml_char_t *anchor_of(const yaml_event_t *event)
{
	return event->type == YAML_SCALAR_EVENT           ? event->data.scalar.anchor
	       : event->type == YAML_SEQUENCE_START_EVENT ? event->data.sequence_start.anchor
	       : event->type == YAML_MAPPING_START_EVENT  ? event->data.mapping_start.anchor
							  : NULL;
}

static int read_value(struct reader *r, const yaml_event_t *event, unsigned depth, json_t **ret)
{
	yaml_mark_t mark = event->start_mark;

	switch (event->type) {
	case YAML_ALIAS_EVENT:
		return read_alias(r, event, depth, ret);
	case YAML_SCALAR_EVENT:
		return read_scalar(r, event, ret);
	case YAML_SEQUENCE_START_EVENT:
	case YAML_MAPPING_START_EVENT:
		if (depth == 0)
			return bad(r, mark, "nested more than %d levels deep", SPEC_DEPTH_MAX);
		if (event->type == YAML_SEQUENCE_START_EVENT)
			return check_tag(r, event->data.sequence_start.tag, YAML_SEQ_TAG, mark) < 0
				       ? -1
				       : read_sequence(r, depth - 1, ret);
		return check_tag(r, event->data.mapping_start.tag, YAML_MAP_TAG, mark) < 0
			       ? -1
			       : read_mapping(r, depth - 1, ret);
	default:
		return err_set(
			r->e, ERR_INTERNAL, "YAML event %d where a value belongs", event->type);
	}
}

/* depth: how many more levels may be opened. */
static int read_node(struct reader *r, const yaml_event_t *event, unsigned depth, json_t **ret)
{
	auto_json json_t *value = NULL;

	if (read_value(r, event, depth, &value) < 0 || keep_anchor(r, anchor_of(event), value) < 0)
		return -1;
	*ret = take_ptr(&value);
	return 0;
}

/* Reads one event and insists that it is of this type. */
static int expect(struct reader *r, yaml_event_type_t type, const char *otherwise)
{
	auto_event yaml_event_t event = {0};

	if (next_event(r, &event) < 0)
		return -1;
	return event.type == type ? 0 : bad(r, event.start_mark, "%s", otherwise);
}

static int read_yaml(struct bytes text, bool aliases, json_t **ret, struct err *e)
{
	auto_reader struct reader r = {.e = e, .anchors = aliases ? json_object() : NULL};
	auto_event yaml_event_t root = {0};
	auto_json json_t *j = NULL;

	if (!yaml_parser_initialize(&r.parser))
		return err_oom(e);
	yaml_parser_set_input_string(&r.parser, text.p, text.len);
	yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
	if (expect(&r, YAML_STREAM_START_EVENT, "not YAML") < 0 ||
		expect(&r, YAML_DOCUMENT_START_EVENT, "the spec is empty") < 0)
		return -1;
	if (next_event(&r, &root) < 0 || read_node(&r, &root, SPEC_DEPTH_MAX, &j) < 0)
		return -1;
	if (expect(&r, YAML_DOCUMENT_END_EVENT, "more after the end") < 0 ||
		expect(&r, YAML_STREAM_END_EVENT, "a second document; a spec is one") < 0)
		return -1;
	*ret = take_ptr(&j);
	return 0;
}

static unsigned json_depth(const json_t *j)
{
	unsigned deepest = 0, depth;
	const char *key;
	json_t *child;
	size_t i;

	json_array_foreach((json_t *)j, i, child) {
		depth = json_depth(child);
		deepest = depth > deepest ? depth : deepest;
	}
	json_object_foreach((json_t *)j, key, child) {
		depth = json_depth(child);
		deepest = depth > deepest ? depth : deepest;
	}
	return json_is_object(j) || json_is_array(j) ? deepest + 1 : 0;
}

static int read_json(struct bytes text, json_t **ret, struct err *e)
{
	json_error_t je;
	auto_json json_t *j =
		json_loadb((const char *)text.p, text.len, JSON_REJECT_DUPLICATES, &je);

	if (!j)
		return err_set(e, ERR_INVALID, "line %d, column %d: not valid JSON: %s", je.line,
			je.column, je.text);
	if (json_depth(j) > SPEC_DEPTH_MAX)
		return err_set(e, ERR_INVALID, "nested more than %d levels deep", SPEC_DEPTH_MAX);
	*ret = take_ptr(&j);
	return 0;
}

/*
 * A text that begins with {" (or is no more than the brace) is meant as JSON, so errors must be
 * those of a JSON parser. It may still be YAML, where {"a": b} is valid.
 */
static bool looks_like_json(struct bytes text)
{
	size_t i = 0;

	while (i < text.len && isspace(text.p[i]))
		i++;
	if (i == text.len || text.p[i] != '{')
		return false;
	for (i++; i < text.len && isspace(text.p[i]); i++)
		;
	return i == text.len || text.p[i] == '"' || text.p[i] == '}';
}

static int text_to_json(struct bytes text, bool aliases, json_t **ret, struct err *e)
{
	struct err json_err;
	bool json;

	if (text.len > SPEC_TEXT_MAX)
		return err_set(e, ERR_INVALID, "the spec has %zu bytes; at most %d are allowed",
			text.len, SPEC_TEXT_MAX);
	if (text.len >= 3 && memcmp(text.p, "\xef\xbb\xbf", 3) == 0)
		text = (struct bytes){text.p + 3, text.len - 3}; /* a byte order mark */
	if (text.len == 0)
		return err_set(e, ERR_INVALID, "the spec is empty");
	json = looks_like_json(text);
	if (json && read_json(text, ret, &json_err) == 0)
		return 0;
	if (read_yaml(text, aliases, ret, e) == 0)
		return 0;
	if (json)
		*e = json_err;
	return -1;
}

int spec_text_to_json(struct bytes text, json_t **ret, struct err *e)
{
	return text_to_json(text, false, ret, e);
}

int yaml_with_aliases_to_json(struct bytes text, json_t **ret, struct err *e)
{
	return text_to_json(text, true, ret, e);
}
