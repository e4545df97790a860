#include "driver/proxmox/api/form.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

int form_escape(struct buf *b, const char *text, size_t len, struct err *e)
{
	static const char digits[] = "0123456789ABCDEF";
	uint8_t *room = buf_room(b, len * 3);
	size_t n = 0;

	if (!room)
		return err_oom(e);
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (isalnum(c) || memchr("-._~", c, 4)) {
			room[n++] = c;
		} else {
			room[n++] = '%';
			room[n++] = (uint8_t)digits[c >> 4];
			room[n++] = (uint8_t)digits[c & 15];
		}
	}
	buf_grew(b, n);
	return 0;
}

static int add_one(struct buf *b, size_t start, const char *key, const json_t *value, struct err *e)
{
	if (b->len > start && buf_add(b, "&", 1, e) < 0)
		return -1;
	if (form_escape(b, key, strlen(key), e) < 0 || buf_add(b, "=", 1, e) < 0)
		return -1;
	switch (json_typeof(value)) {
	case JSON_STRING:
		return form_escape(b, json_string_value(value), json_string_length(value), e);
	case JSON_INTEGER:
		return buf_printf(b, e, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	case JSON_REAL:
		return buf_printf(b, e, "%g", json_real_value(value));
	case JSON_TRUE:
		return buf_add(b, "1", 1, e);
	case JSON_FALSE:
		return buf_add(b, "0", 1, e);
	default:
		return err_set(e, ERR_INTERNAL, "parameter %s: not a plain value", key);
	}
}

int form_encode(struct buf *b, const json_t *params, struct err *e)
{
	size_t start = b->len, i;
	const char *key;
	json_t *value, *item;

	/* jansson's iterators take no const object, but change nothing. */
	json_object_foreach((json_t *)params, key, value) {
		if (json_is_null(value))
			continue;
		if (!json_is_array(value)) {
			if (add_one(b, start, key, value, e) < 0)
				return -1;
			continue;
		}
		json_array_foreach(value, i, item) {
			if (add_one(b, start, key, item, e) < 0)
				return -1;
		}
	}
	return 0;
}

int form_vpath(char **ret, const char *fmt, va_list ap, struct err *e)
{
	auto_buf struct buf b = {0};
	char *text;

	for (; *fmt; fmt++) {
		const char *s;

		if (*fmt != '%') {
			if (buf_add(&b, fmt, 1, e) < 0)
				return -1;
			continue;
		}
		fmt++;
		if (*fmt == 's') {
			s = va_arg(ap, const char *);
			if (form_escape(&b, s, strlen(s), e) < 0)
				return -1;
		} else if (*fmt == 'u') {
			if (buf_printf(&b, e, "%u", va_arg(ap, unsigned)) < 0)
				return -1;
		} else {
			return err_set(e, ERR_INTERNAL, "a path with %%%c", *fmt);
		}
	}
	text = buf_take_str(&b);
	if (!text)
		return err_oom(e);
	*ret = text;
	return 0;
}
