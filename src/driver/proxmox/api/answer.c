#include "driver/proxmox/api/answer.h"

#include <stdio.h>
#include <string.h>

#include "driver/proxmox/api/wording.h"
#include "util/json.h"
#include "util/str.h"

enum { MESSAGE_MAX = 640 };

static enum err_kind kind_of(int status, const char *message)
{
	if (status == 401 || status == 403)
		return ERR_PERMISSION;
	if (status == 400)
		return ERR_INVALID;
	if (status == 404 || (status == 500 && pve_says_missing(message)))
		return ERR_NOT_FOUND;
	if (answer_is_transient(status))
		return ERR_UNAVAILABLE;
	return ERR_BACKEND;
}

/* "field: text; field: text", escaped and cut to fit. */
static void add_fields(json_t *errors, char *out, size_t size)
{
	const char *key, *text;
	json_t *value;

	json_object_foreach(errors, key, value) {
		size_t n = strlen(out);
		char field[64], why[256];

		text = json_string_value(value);
		str_escape(key, strlen(key), field, sizeof(field));
		str_escape(text ? text : "?", text ? strlen(text) : 1, why, sizeof(why));
		snprintf(out + n, size - n, "; %s: %s", field, why);
	}
}

static int fail(const struct http_answer *a, json_t *body, struct err *e)
{
	const char *said = json_string_value(json_object_get(body, "message"));
	size_t n = said ? strlen(said) : 0;
	char text[MESSAGE_MAX] = "";
	enum err_kind kind;

	while (n && (said[n - 1] == '\n' || said[n - 1] == ' '))
		n--;
	if (n)
		str_escape(said, n, text, sizeof(text));
	else
		snprintf(text, sizeof(text), "%s", a->reason);
	kind = kind_of(a->status, text);
	add_fields(json_object_get(body, "errors"), text, sizeof(text));
	err_set(e, kind, "%s (HTTP %d)", text[0] ? text : "no reason given", a->status);
	e->sys = a->status;
	return -1;
}

int answer_read(const struct http_answer *a, json_t **ret, struct err *e)
{
	auto_json json_t *body = NULL;
	struct err why;
	json_t *data;

	if (a->status < 200 || a->status >= 300) {
		/* The body of an error may be anything: JSON, a page of a proxy, or nothing. */
		if (a->body.len && json_parse_object_nul(buf_bytes(&a->body), &body, &why) < 0)
			body = NULL;
		return fail(a, body, e);
	}
	if (json_parse_object_nul(buf_bytes(&a->body), &body, e) < 0) {
		err_set(e, ERR_BACKEND, "the server's answer is not JSON");
		e->sys = a->status;
		return -1;
	}
	data = json_object_get(body, "data");
	*ret = data ? json_incref(data) : json_null();
	return 0;
}
