#include "web/allow.h"

#include <string.h>

#include "util/auto.h"
#include "util/str.h"

struct allowed_op {
	const char *op;
	const char *args; /* the arguments that it may have, a space around each */
	bool acts;        /* it changes something */
};

static const struct allowed_op ops[] = {
	{"ls", " sandbox ", false},
	{"watch", " sandbox figures ", false},
	{"info", " ", false},
	{"net.show", " sandbox ", false},
	{"net.capture", " sandbox vnet ", false},
	{"snapshots", " sandbox ", false},
	{"logs", " sandbox vm kind follow ", false},
	{"screenshot", " sandbox vm size region of ", false},
	{"screen", " sandbox vm control ", false},
	{"read", " sandbox vm path cwd user max ", false},
	{"list", " sandbox vm path cwd user ", false},
	{"image.ls", " ", false},
	{"template.ls", " ", false},
	{"doctor", " driver ", false},
	{"pool", " action pool ", false},
	{"pool.images", " pool ", false},
	{"exec", " sandbox vm argv cwd env user timeout tty ", true},
	{"write", " sandbox vm path cwd user mode parents ", true},
	{"mkdir", " sandbox vm path cwd user mode ", true},
	{"snapshot", " sandbox name vm ", true},
	{"restore", " sandbox name vm ", true},
	{"snapshot.rm", " sandbox name ", true},
	{"fork", " sandbox n detach wait ", true},
	{"detach", " sandbox ", true},
	{"rm", " sandboxes ", true},
	{"net.forward", " sandbox vm port host_port ", true},
	{"net.unforward", " sandbox host_port ", true},
	{"image.build", " image rebuild ", true},
};

static const struct allowed_op *find(const char *op)
{
	for (unsigned i = 0; op && i < ARRAY_LEN(ops); i++)
		if (strcmp(ops[i].op, op) == 0)
			return &ops[i];
	return NULL;
}

/* Whether the list has the word. */
static bool has_word(const char *list, const char *word)
{
	size_t len = strlen(word);

	if (!len || strchr(word, ' '))
		return false; /* so that what is found has something in front of it */
	for (const char *at = list; (at = strstr(at, word)); at++)
		if (at[-1] == ' ' && at[len] == ' ')
			return true;
	return false;
}

static enum allow check_args(
	const struct allowed_op *op, const json_t *args, bool acting, struct err *e)
{
	const char *name, *action = json_string_value(json_object_get(args, "action"));
	json_t *value;
	char safe[64];

	if (args && !json_is_object(args))
		return ALLOW_PASS; /* the daemon says what is wrong with it */
	json_object_foreach((json_t *)args, name, value) {
		if (has_word(op->args, name))
			continue;
		str_escape(name, strlen(name), safe, sizeof(safe));
		err_set(e, ERR_PERMISSION, "a page may not give %s an argument \"%s\"", op->op,
			safe);
		return ALLOW_REFUSE;
	}
	/* An image's name may also be a path of the host. */
	name = json_string_value(json_object_get(args, "image"));
	if (!acting && json_is_true(json_object_get(args, "control"))) {
		err_set(e, ERR_PERMISSION, "the console only looks");
		return ALLOW_REFUSE;
	}
	if ((name && (strpbrk(name, "/~") || *name == '.')) ||
		(action && strcmp(action, "ls") != 0)) {
		err_set(e, ERR_PERMISSION, "a page may not do that");
		return ALLOW_REFUSE;
	}
	return ALLOW_PASS;
}

static enum allow check_request(const json_t *frame, bool acting, struct err *e)
{
	const char *name = json_string_value(json_object_get(frame, "op"));
	const struct allowed_op *op = find(name);
	char safe[64];

	if (!op) {
		str_escape(name ? name : "", name ? strlen(name) : 0, safe, sizeof(safe));
		err_set(e, ERR_PERMISSION, "a page may not do \"%s\"", safe);
		return ALLOW_REFUSE;
	}
	if (op->acts && !acting) {
		err_set(e, ERR_PERMISSION, "the console only looks");
		return ALLOW_REFUSE;
	}
	return check_args(op, json_object_get(frame, "args"), acting, e);
}

enum allow allow_frame(const json_t *frame, bool acting, struct err *e)
{
	static const char *const follows[] = {"data", "eof", "cancel", "resize", "signal"};
	const char *type = json_string_value(json_object_get(frame, "type"));

	if (type && strcmp(type, "request") == 0)
		return check_request(frame, acting, e);
	for (unsigned i = 0; type && i < ARRAY_LEN(follows); i++)
		if (strcmp(type, follows[i]) == 0)
			return ALLOW_PASS;
	/* Whoever works by a page is a person, and the daemon must be told. */
	if (type && strcmp(type, "hello") == 0 && !json_object_get(frame, "urgent") &&
		json_string_length(json_object_get(frame, "person")) > 0)
		return ALLOW_PASS;
	err_set(e, ERR_INVALID, "a page does not send such a frame");
	return ALLOW_BREAK;
}
