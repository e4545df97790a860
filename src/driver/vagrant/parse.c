#include "driver/vagrant/parse.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "util/auto.h"
#include "util/str.h"

static const char comma[] = "%!(VAGRANT_COMMA)";

static void copy(char *out, size_t size, const char *text)
{
	str_escape(text, strlen(text), out, size);
}

/* The escapes stand for shorter text, so a field is rewritten where it is. */
static void unescape(char *field)
{
	char *out = field;

	for (const char *in = field; *in;) {
		if (str_starts(in, comma)) {
			*out++ = ',';
			in += sizeof(comma) - 1;
		} else if (in[0] == '\\' && (in[1] == 'n' || in[1] == 'r')) {
			*out++ = in[1] == 'n' ? '\n' : '\r';
			in += 2;
		} else {
			*out++ = *in++;
		}
	}
	*out = 0;
}

bool vagrant_line_parse(char *line, struct vagrant_line *ret)
{
	char *fields[VAGRANT_FIELDS_MAX + 3];
	unsigned n = 0;
	size_t digits = strspn(line, "0123456789");

	*ret = (struct vagrant_line){0};
	if (!digits || line[digits] != ',')
		return false;
	for (char *at = line; at && n < ARRAY_LEN(fields);) {
		char *end = strchr(at, ',');

		fields[n++] = at;
		if (end)
			*end++ = 0;
		at = end;
	}
	if (n < 3)
		return false;
	for (unsigned i = 1; i < n; i++)
		unescape(fields[i]);
	ret->target = fields[1];
	ret->type = fields[2];
	for (unsigned i = 3; i < n; i++)
		ret->data[ret->n_data++] = fields[i];
	return true;
}

/* ---- ssh-config ---- */

/* A value may be in double quotes, with backslashes before quotes and backslashes. */
static void value_of(const char *text, size_t len, char *out, size_t size)
{
	size_t n = 0;
	bool quoted = len >= 2 && text[0] == '"' && text[len - 1] == '"';

	if (quoted) {
		text++;
		len -= 2;
	}
	for (size_t i = 0; i < len && n + 1 < size; i++) {
		if (quoted && text[i] == '\\' && i + 1 < len)
			i++;
		out[n++] = text[i];
	}
	out[n] = 0;
}

static void take_setting(struct vagrant_ssh *s, const char *key, size_t key_len, const char *value,
	size_t len, bool *proxied)
{
	char number[16];
	uint64_t port;
	struct err ignored;
	struct {
		const char *name;
		char *out;
		size_t size;
	} known[] = {{"HostName", s->host, sizeof(s->host)}, {"User", s->user, sizeof(s->user)},
		{"Port", number, sizeof(number)},
		{"IdentityFile", s->keys[s->n_keys < VAGRANT_KEYS_MAX ? s->n_keys : 0],
			sizeof(s->keys[0])}};

	if (key_len == strlen("ProxyCommand") && strncasecmp(key, "ProxyCommand", key_len) == 0)
		*proxied = true;
	for (unsigned i = 0; i < ARRAY_LEN(known); i++) {
		if (strlen(known[i].name) != key_len ||
			strncasecmp(known[i].name, key, key_len) != 0)
			continue;
		if (i == 3 && s->n_keys == VAGRANT_KEYS_MAX)
			return;
		value_of(value, len, known[i].out, known[i].size);
		if (i == 3)
			s->n_keys++;
		if (i == 2 && str_to_u64(number, 1, 65535, &port, &ignored) == 0)
			s->port = (unsigned)port;
	}
}

int vagrant_ssh_config_parse(const char *text, struct vagrant_ssh *ret, struct err *e)
{
	struct vagrant_ssh s = {0};
	bool proxied = false;

	while (*text) {
		size_t len = strcspn(text, "\r\n");
		size_t indent = strspn(text, " \t");
		size_t key = indent < len ? strcspn(text + indent, " \t=\r\n") : 0;
		const char *value = text + indent + key;
		const char *end = text + len;

		while (value < end && strchr(" \t=", *value))
			value++;
		while (end > value && strchr(" \t", end[-1]))
			end--;
		if (key && indent + key < len)
			take_setting(
				&s, text + indent, key, value, (size_t)(end - value), &proxied);
		text += len;
		text += strspn(text, "\r\n");
	}
	if (proxied)
		return err_set(e, ERR_UNSUPPORTED,
			"the machine is reached through a ProxyCommand, which moat does not run");
	if (!s.host[0] || !s.user[0])
		return err_set(e, ERR_BACKEND, "vagrant ssh-config names no host and user");
	if (!s.port)
		s.port = 22;
	*ret = s;
	return 0;
}

/* ---- the report ---- */

struct vagrant_machine *vagrant_report_machine(struct vagrant_report *r, const char *name)
{
	for (unsigned i = 0; i < r->n_machines; i++)
		if (strcmp(r->machines[i].name, name) == 0)
			return &r->machines[i];
	return NULL;
}

static struct vagrant_machine *note_machine(struct vagrant_report *r, const char *name)
{
	struct vagrant_machine *m = vagrant_report_machine(r, name);

	if (m || !*name)
		return m;
	if (r->n_machines == VAGRANT_MACHINES_MAX || strlen(name) >= VAGRANT_NAME_MAX) {
		r->too_many = true;
		return NULL;
	}
	m = &r->machines[r->n_machines++];
	*m = (struct vagrant_machine){0};
	memcpy(m->name, name, strlen(name) + 1);
	return m;
}

/* All white space becomes one blank: an error is one line. */
static void flatten(const char *text, char *out, size_t size)
{
	size_t n = 0;

	while (isspace((unsigned char)*text))
		text++;
	while (*text && n + 1 < size) {
		if (isspace((unsigned char)*text)) {
			text += strspn(text, " \t\r\n\v\f");
			if (*text)
				out[n++] = ' ';
		} else {
			out[n++] = *text++;
		}
	}
	out[n] = 0;
}

/* Long texts of Vagrant begin with what it wanted and end with what went wrong: keep both. */
static void shorten(const char *text, char *out, size_t size)
{
	auto_free char *flat = malloc(strlen(text) + 1);
	size_t len, head, tail;

	out[0] = 0;
	if (!flat)
		return;
	flatten(text, flat, strlen(text) + 1);
	len = strlen(flat);
	if (len < size) {
		copy(out, size, flat);
		return;
	}
	head = size / 3;
	tail = size - head - 8;
	copy(out, head, flat);
	snprintf(out + strlen(out), size - strlen(out), " ... ");
	copy(out + strlen(out), size - strlen(out), flat + len - tail);
}

/* Takes the machine's name off "==> web: Starting domain." and "    web: ok". */
static const char *plain(const char *text, const char *target)
{
	size_t len = strlen(target);

	text += str_starts(text, "==> ") ? 4 : strspn(text, " ");
	if (len && strncmp(text, target, len) == 0 && text[len] == ':')
		text += len + 1;
	return text + strspn(text, " ");
}

/* Where machines go up together, their errors come with a preface, and the name of the machine in
 * it. Takes that away; what is left is the first error itself. */
static const char *without_preface(const char *text, char *machine, size_t size)
{
	static const char on[] = "action on the '", again[] = "try again:";
	const char *name = strstr(text, on), *end, *rest;

	if (!str_starts(text, "An error occurred while executing multiple actions") || !name)
		return text;
	name += strlen(on);
	end = strchr(name, '\'');
	rest = end ? strstr(end, again) : NULL;
	if (!rest)
		return text;
	snprintf(machine, size, "%.*s", (int)(end - name), name);
	return rest + strlen(again);
}

static void note_error(struct vagrant_report *r, const char *text)
{
	char machine[sizeof(r->failed)] = "";

	shorten(without_preface(text, machine, sizeof(machine)), r->error, sizeof(r->error));
	copy(r->failed, sizeof(r->failed), machine);
}

static void note_message(struct vagrant_report *r, const struct vagrant_line *l)
{
	const char *kind = l->data[0], *text = plain(l->data[1], l->target);
	char flat[sizeof(r->messages[0].text)], shown[sizeof(r->messages[0].text)];
	struct vagrant_message *m;

	flatten(text, flat, sizeof(flat));
	copy(shown, sizeof(shown), flat);
	if (!*shown)
		return;
	if (strcmp(kind, "error") != 0) {
		m = &r->messages[r->n_messages++ % VAGRANT_MESSAGES_KEPT];
		snprintf(m->target, sizeof(m->target), "%.*s", VAGRANT_NAME_MAX - 1, l->target);
		memcpy(m->text, shown, sizeof(shown));
	}
	/* A table of settings is no news. */
	if (!str_starts(text, "-- "))
		snprintf(r->progress, sizeof(r->progress), "%.60s%s%.90s", l->target,
			*l->target ? ": " : "", shown);
	if (strcmp(kind, "error") == 0 && !r->error[0])
		note_error(r, l->data[1]);
}

static void note_ssh(struct vagrant_report *r, const struct vagrant_line *l)
{
	struct vagrant_machine *m = note_machine(r, l->target);
	struct vagrant_ssh s = {0};
	struct err ignored;
	uint64_t port;

	if (!m || l->n_data < 3 || str_to_u64(l->data[1], 1, 65535, &port, &ignored) < 0 ||
		strlen(l->data[0]) >= sizeof(s.host) || strlen(l->data[2]) >= sizeof(s.user) ||
		!*l->data[0] || !*l->data[2])
		return;
	s.port = (unsigned)port;
	snprintf(s.host, sizeof(s.host), "%s", l->data[0]);
	snprintf(s.user, sizeof(s.user), "%s", l->data[2]);
	for (unsigned i = 3; i < l->n_data && s.n_keys < VAGRANT_KEYS_MAX; i++)
		if (strlen(l->data[i]) < sizeof(s.keys[0]))
			snprintf(s.keys[s.n_keys++], sizeof(s.keys[0]), "%s", l->data[i]);
	m->ssh = s;
}

static void note_error_exit(struct vagrant_report *r, const struct vagrant_line *l)
{
	const char *name = strrchr(l->data[0], ':');

	copy(r->error_class, sizeof(r->error_class), name ? name + 1 : l->data[0]);
	if (l->n_data > 1)
		note_error(r, l->data[1]);
}

static bool is(const struct vagrant_line *l, const char *type, unsigned at_least)
{
	return strcmp(l->type, type) == 0 && l->n_data >= at_least;
}

void vagrant_report_line(struct vagrant_report *r, char *line)
{
	struct vagrant_machine *m;
	struct vagrant_line l;
	struct err ignored;

	r->progress[0] = 0;
	if (!vagrant_line_parse(line, &l))
		return;
	if (is(&l, "metadata", 2) && strcmp(l.data[0], "provider") == 0) {
		m = note_machine(r, l.target);
		if (m)
			copy(m->provider, sizeof(m->provider), l.data[1]);
	} else if (is(&l, "state", 1)) {
		m = note_machine(r, l.target);
		if (m)
			copy(m->state, sizeof(m->state), l.data[0]);
	} else if (is(&l, "action", 2) && strcmp(l.data[1], "end") == 0) {
		m = note_machine(r, l.target);
		if (m)
			m->actions++;
	} else if (is(&l, "moat-ssh", 3)) {
		note_ssh(r, &l);
	} else if (is(&l, "moat-hint", 1)) {
		copy(r->hint, sizeof(r->hint), l.data[0]);
	} else if (is(&l, "ssh-config", 1)) {
		m = note_machine(r, l.target);
		if (m && vagrant_ssh_config_parse(l.data[0], &m->ssh, &ignored) < 0)
			memcpy(r->error, ignored.msg, sizeof(r->error) - 1);
	} else if (is(&l, "ui", 2)) {
		note_message(r, &l);
	} else if (is(&l, "error-exit", 1)) {
		note_error_exit(r, &l);
	}
}

bool vagrant_report_locked(const struct vagrant_report *r)
{
	return strcmp(r->error_class, "MachineActionLockedError") == 0 ||
	       strcmp(r->error_class, "MachineLocked") == 0 ||
	       strcmp(r->error_class, "EnvironmentLockedError") == 0;
}

/* Whether the error only says that a step failed, after messages that say why. */
static bool says_see_above(const struct vagrant_report *r, const char *cause)
{
	static const char *const names[] = {"SSHCommandFailed", "VagrantBadExitStatus",
		"AnsibleCommandFailed", "VMBootTimeout", "BadExitStatus"};

	for (unsigned i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(r->error_class, names[i]) == 0)
			return true;
	/* A plugin that is missing is told of in a warning; then Vagrant asks a terminal what to
	 * do, and there is none. */
	return strstr(cause, "log above") || strstr(cause, "requires a TTY");
}

/* The last messages of the machine that failed, or of all if that is not known, the oldest first.
 */
static void last_messages(const struct vagrant_report *r, char *out, size_t size)
{
	const struct vagrant_message *last[VAGRANT_MESSAGES_SHOWN];
	unsigned n = 0;

	for (unsigned back = 1; back <= VAGRANT_MESSAGES_KEPT && back <= r->n_messages; back++) {
		const struct vagrant_message *m =
			&r->messages[(r->n_messages - back) % VAGRANT_MESSAGES_KEPT];

		if (r->failed[0] && strcmp(m->target, r->failed) != 0)
			continue;
		last[n++] = m;
		if (n == VAGRANT_MESSAGES_SHOWN)
			break;
	}
	out[0] = 0;
	while (n) {
		size_t len = strlen(out);

		snprintf(out + len, size - len, "%s%s", len ? " | " : "", last[--n]->text);
	}
}

static enum err_kind kind_of(const char *class)
{
	static const struct {
		const char *class;
		enum err_kind kind;
	} kinds[] = {{"SnapshotNotFound", ERR_NOT_FOUND}, {"SnapshotNotSupported", ERR_UNSUPPORTED},
		{"MachineNotFound", ERR_NOT_FOUND}, {"BoxNotFound", ERR_NOT_FOUND},
		{"ProviderNotFound", ERR_UNSUPPORTED}, {"ProviderNotUsable", ERR_UNSUPPORTED},
		{"VagrantfileSyntaxError", ERR_INVALID}, {"VagrantfileLoadError", ERR_INVALID},
		{"VagrantfileNameError", ERR_INVALID}, {"VagrantfileTypeError", ERR_INVALID},
		{"ConfigInvalid", ERR_INVALID}};

	for (unsigned i = 0; i < ARRAY_LEN(kinds); i++)
		if (strcmp(class, kinds[i].class) == 0)
			return kinds[i].kind;
	return ERR_BACKEND;
}

/*
 * Ruby says "file:line:in `method': what happened (SomeError)" first and the stack after it.
 * Vagrant's own plain errors have no such line, and are taken whole.
 */
static void sense_of_stderr(const char *text, char *out, size_t size)
{
	auto_free char *copy_of = strdup(text);
	char *rest = NULL;

	out[0] = 0;
	if (!copy_of)
		return;
	for (char *line = strtok_r(copy_of, "\n", &rest); line;
		line = strtok_r(NULL, "\n", &rest)) {
		size_t len = strlen(line);

		while (len && strchr(" \t\r", line[len - 1]))
			line[--len] = 0;
		if (str_ends(line, "Error)") || str_ends(line, "Exception)")) {
			const char *cause = strstr(line, "': ");

			shorten(cause ? cause + 3 : line, out, size);
			return;
		}
	}
	shorten(text, out, size);
}

int vagrant_report_fail(const struct vagrant_report *r, int exit_code, const char *stderr_text,
	const char *what, struct err *e)
{
	char cause[512], above[VAGRANT_MESSAGES_SHOWN * 100] = "";

	if (r->error[0])
		snprintf(cause, sizeof(cause), "%s", r->error);
	else
		sense_of_stderr(stderr_text, cause, sizeof(cause));
	if (says_see_above(r, cause) || !*cause)
		last_messages(r, above, sizeof(above));
	/* What a provisioner said comes first: Vagrant's own words are the same each time. */
	err_set(e, kind_of(r->error_class), "%s: %s%s%s%s%s%s%s%s", what, r->failed,
		r->failed[0] ? ": " : "", above, *above ? " - " : "",
		*cause ? cause : "it failed without saying why", r->hint[0] ? " (" : "", r->hint,
		r->hint[0] ? ")" : "");
	e->sys = exit_code;
	return -1;
}
