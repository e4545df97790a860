#include "spec/write.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "spec/spec.h"
#include "util/auto.h"
#include "util/json.h"

static int write_field(const struct field *f, const void *base, json_t **ret, struct err *e);

static int made(json_t *j, json_t **ret, struct err *e)
{
	if (!j)
		return err_oom(e);
	*ret = j;
	return 0;
}

static json_t *text_or_null(const char *s)
{
	return s ? json_string(s) : json_null();
}

/* A number that may be absent has a minimum of 1 or more, so 0 means that it is absent. */
static json_t *whole_or_null(const struct field *f, unsigned value)
{
	return value == 0 && f->min > 0 ? json_null() : json_integer(value);
}

static json_t *number_json(double value)
{
	return floor(value) == value ? json_integer((json_int_t)value) : json_real(value);
}

static json_t *choice_json(const struct choices *c, const void *in)
{
	int value;

	memcpy(&value, in, sizeof(value));
	return text_or_null(c->list[value]);
}

static json_t *address_json(const struct field *f, const void *in)
{
	char text[NET_TEXT_MAX];

	if (f->kind == FIELD_IPV4_NET)
		return json_string(ipv4_net_text(*(const struct ipv4_net *)in, text));
	if (f->kind == FIELD_MAC) {
		struct mac_addr mac = *(const struct mac_addr *)in;

		return mac_is_set(mac) ? json_string(mac_text(mac, text)) : json_null();
	}
	return *(const uint32_t *)in ? json_string(ipv4_text(*(const uint32_t *)in, text))
				     : json_null();
}

static int write_list(const struct field *f, const void *base, json_t **ret, struct err *e)
{
	const char *items = *(const char *const *)((const char *)base + f->at);
	size_t n = *(const size_t *)((const char *)base + f->count_at);
	auto_json json_t *list = json_array();

	if (!list)
		return err_oom(e);
	for (size_t i = 0; i < n; i++) {
		json_t *item = NULL;

		if (write_field(f->item, items + i * field_size(f->item), &item, e) < 0)
			return -1;
		if (json_array_append_new(list, item) < 0)
			return err_oom(e);
	}
	*ret = take_ptr(&list);
	return 0;
}

static int write_field(const struct field *f, const void *base, json_t **ret, struct err *e)
{
	const void *in = (const char *)base + f->at;

	switch (f->kind) {
	case FIELD_BOOL:
		return made(json_boolean(*(const bool *)in), ret, e);
	case FIELD_WHOLE:
		return made(whole_or_null(f, *(const unsigned *)in), ret, e);
	case FIELD_NUMBER:
		return made(number_json(*(const double *)in), ret, e);
	case FIELD_TEXT:
	case FIELD_USER:
		return made(text_or_null(*(const char *const *)in), ret, e);
	case FIELD_CHOICE:
		return made(choice_json(f->choices, in), ret, e);
	case FIELD_IPV4:
	case FIELD_IPV4_NET:
	case FIELD_MAC:
		return made(address_json(f, in), ret, e);
	case FIELD_TEXT_MAP:
	case FIELD_NATIVE: /* a copy: the reader of the result may change it */
		return made(json_deep_copy(*(json_t *const *)in), ret, e);
	case FIELD_PART:
		return shape_write(f->shape, in, ret, e);
	case FIELD_OBJECT:
		if (!*(const void *const *)in)
			return made(json_null(), ret, e);
		return shape_write(f->shape, *(const void *const *)in, ret, e);
	case FIELD_LIST:
		if (f->given_at && !*(const bool *)((const char *)base + f->given_at))
			return made(json_null(), ret, e);
		return write_list(f, base, ret, e);
	}
	return err_set(e, ERR_INTERNAL, "a field of no kind");
}

int shape_write(const struct shape *s, const void *in, json_t **ret, struct err *e)
{
	auto_json json_t *object = NULL;
	int choice;

	if (s->choices) {
		memcpy(&choice, in, sizeof(choice));
		if (choice != s->object_choice)
			return made(choice_json(s->choices, in), ret, e);
	}
	object = json_object();
	if (!object)
		return err_oom(e);
	for (size_t i = 0; i < s->n_fields; i++) {
		json_t *member = NULL;

		if (write_field(&s->fields[i], in, &member, e) < 0)
			return -1;
		if (s->one_member && json_is_null(member))
			continue;
		if (json_object_set_new(object, s->fields[i].name, member) < 0)
			return err_oom(e);
	}
	if (s->one_member && json_object_size(object) == 0)
		return made(json_null(), ret, e);
	*ret = take_ptr(&object);
	return 0;
}

static void free_field(const struct field *f, void *base)
{
	void *in = (char *)base + f->at, **pointer = in;

	switch (f->kind) {
	case FIELD_TEXT:
	case FIELD_USER:
		free(*pointer);
		break;
	case FIELD_NATIVE:
	case FIELD_TEXT_MAP:
		json_decref(*pointer);
		break;
	case FIELD_PART:
		shape_free(f->shape, in);
		break;
	case FIELD_OBJECT:
		if (*pointer)
			shape_free(f->shape, *pointer);
		free(*pointer);
		break;
	case FIELD_LIST:
		for (size_t i = 0, n = *(size_t *)((char *)base + f->count_at); i < n; i++)
			free_field(f->item, *(char **)pointer + i * field_size(f->item));
		free(*pointer);
		break;
	default: /* the member owns no memory */
		break;
	}
}

void shape_free(const struct shape *s, void *in)
{
	for (size_t i = 0; i < s->n_fields; i++)
		free_field(&s->fields[i], in);
	memset(in, 0, s->size);
}
