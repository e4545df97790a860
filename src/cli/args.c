#include "cli/args.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"
#include "util/suggest.h"

enum { ARGS_WRONG = -64 }; /* stored in err.sys; not a value of errno */

int args_fail(struct err *e, const char *fmt, ...)
{
	char text[sizeof(e->msg)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	err_set(e, ERR_INVALID, "%s", text);
	e->sys = ARGS_WRONG;
	return -1;
}

bool args_failed(const struct err *e)
{
	return e->kind == ERR_INVALID && e->sys == ARGS_WRONG;
}

void args_free(struct args *a)
{
	free(a->given);
	free(a->operands);
	*a = (struct args){0};
}

/* The n-th option that the verb takes, its own ones before the common ones; NULL after the last. */
static const struct opt *nth_opt(const struct cmd *cmd, unsigned n)
{
	for (const struct opt *o = cmd->opts; o && o->name; o++)
		if (n-- == 0)
			return o;
	for (const struct opt *o = cmd_common_opts; o->name; o++)
		if (cmd_takes_common(cmd, o) && n-- == 0)
			return o;
	return NULL;
}

static const struct opt *find_long(const struct cmd *cmd, const char *name, size_t len)
{
	const struct opt *o;

	for (unsigned i = 0; (o = nth_opt(cmd, i)); i++)
		if (strlen(o->name) == len && strncmp(o->name, name, len) == 0)
			return o;
	return NULL;
}

static const struct opt *find_short(const struct cmd *cmd, char letter)
{
	const struct opt *o;

	for (unsigned i = 0; (o = nth_opt(cmd, i)); i++)
		if (o->letter == letter)
			return o;
	return NULL;
}

static int fail_unknown_long(const struct cmd *cmd, const char *name, size_t len, struct err *e)
{
	struct suggestion best = {0};
	const struct opt *o;

	for (unsigned i = 0; (o = nth_opt(cmd, i)); i++)
		if (o->help)
			suggest_consider(&best, name, len, o->name);
	if (best.word)
		return args_fail(
			e, "no option --%.*s; did you mean --%s?", (int)len, name, best.word);
	return args_fail(e, "no option --%.*s", (int)len, name);
}

/* The array has room: a word of the command line gives at most strlen(word) options. */
static void add(struct args *a, const struct opt *o, const char *value)
{
	a->given[a->n_given++] = (struct given){o, value};
}

static int parse_long(struct args *a, char ***at, struct err *e)
{
	const char *name = **at + 2, *equals = strchr(name, '=');
	size_t len = equals ? (size_t)(equals - name) : strlen(name);
	const struct opt *o = find_long(a->cmd, name, len);

	if (!o)
		return fail_unknown_long(a->cmd, name, len, e);
	if (!o->arg && equals)
		return args_fail(e, "--%s takes no argument", o->name);
	if (!o->arg) {
		add(a, o, NULL);
	} else if (equals) {
		add(a, o, equals + 1);
	} else {
		if (!(*at)[1])
			return args_fail(e, "--%s needs %s", o->name, o->arg);
		add(a, o, *++*at);
	}
	return 0;
}

static int parse_short(struct args *a, char ***at, struct err *e)
{
	for (const char *p = **at + 1; *p; p++) {
		const struct opt *o = find_short(a->cmd, *p);

		if (!o)
			return args_fail(e, "no option -%c", *p);
		if (!o->arg) {
			add(a, o, NULL);
			continue;
		}
		if (p[1]) {
			add(a, o, p + 1);
		} else {
			if (!(*at)[1])
				return args_fail(e, "-%c needs %s", *p, o->arg);
			add(a, o, *++*at);
		}
		return 0;
	}
	return 0;
}

static int allocate(struct args *a, char **argv, struct err *e)
{
	size_t words = 0, letters = 0;

	for (; argv[words]; words++)
		letters += strlen(argv[words]) + 1;
	a->given = calloc(letters + 1, sizeof(*a->given));
	a->operands = calloc(words + 1, sizeof(*a->operands));
	return a->given && a->operands ? 0 : err_oom(e);
}

static int check_count(const struct args *a, struct err *e)
{
	if (args_has(a, "help"))
		return 0;
	if (a->n_operands < a->cmd->min)
		return args_fail(e, "too few arguments");
	if (a->n_operands > a->cmd->max)
		return args_fail(e, "unexpected argument \"%s\"", a->operands[a->cmd->max]);
	return 0;
}

/* Parses on after an error and keeps the first one, since --json may follow. */
static int parse(struct args *a, char **argv, struct err *e)
{
	bool only_operands = false;
	struct err later;
	int rc = 0;

	for (char **at = argv; *at; at++) {
		struct err *why = rc < 0 ? &later : e;
		const char *word = *at;

		if (!only_operands && strcmp(word, "--") == 0) {
			only_operands = true;
			continue;
		}
		if (only_operands || word[0] != '-' || !word[1]) {
			a->operands[a->n_operands++] = word;
			/* `exec ID -- ls` and `exec ID ls -l` both work: the command begins after
			 * ID. */
			if ((a->cmd->flags & CMD_COMMAND) && !only_operands && at[1] &&
				strcmp(at[1], "--") == 0)
				at++;
			only_operands = only_operands || (a->cmd->flags & CMD_COMMAND);
			continue;
		}
		if ((word[1] == '-' ? parse_long(a, &at, why) : parse_short(a, &at, why)) < 0)
			rc = -1;
	}
	return rc;
}

int args_parse(const struct cmd *cmd, char **argv, struct args *ret, struct err *e)
{
	auto_args struct args a = {.cmd = cmd};

	if (allocate(&a, argv, e) < 0 || parse(&a, argv, e) < 0 || check_count(&a, e) < 0)
		return -1;
	*ret = a;
	a = (struct args){0};
	return 0;
}

bool args_has_json(const struct cmd *cmd, char **argv)
{
	auto_args struct args a = {.cmd = cmd};
	struct err ignored;

	if (cmd && !cmd->subs) {
		if (allocate(&a, argv, &ignored) < 0)
			return false;
		parse(&a, argv, &ignored);
		return args_has(&a, "json");
	}
	for (; *argv && strcmp(*argv, "--") != 0; argv++)
		if (strcmp(*argv, "--json") == 0)
			return true;
	return false;
}

const char *args_each(const struct args *a, const char *name, unsigned *at)
{
	if (!find_long(a->cmd, name, strlen(name)))
		abort(); /* a bug: the verb's table lacks this option */
	for (; *at < a->n_given; ++*at)
		if (strcmp(a->given[*at].opt->name, name) == 0)
			return a->given[(*at)++].value;
	return NULL;
}

bool args_has(const struct args *a, const char *name)
{
	for (unsigned i = 0; i < a->n_given; i++)
		if (strcmp(a->given[i].opt->name, name) == 0)
			return true;
	return false;
}

const char *args_get(const struct args *a, const char *name)
{
	const char *last = NULL, *value;

	for (unsigned at = 0; (value = args_each(a, name, &at));)
		last = value;
	return last;
}

int args_need_utf8(const struct args *a, struct err *e)
{
	for (unsigned i = 0; i < a->n_operands; i++) {
		auto_json json_t *text = json_string(a->operands[i]);

		if (!text)
			return args_fail(e, "\"%s\" is not UTF-8", a->operands[i]);
	}
	return 0;
}

int args_seconds(const struct args *a, const char *name, double *ret, struct err *e)
{
	const char *text = args_get(a, name);
	char *end;
	double v;

	if (!text)
		return 0;
	errno = 0;
	v = strtod(text, &end);
	if (end == text || *end || errno || !isfinite(v) || v <= 0 || v > 1e9)
		return args_fail(e, "--%s: \"%s\" is not a number of seconds", name, text);
	*ret = v;
	return 0;
}

int args_number(const struct args *a, const char *name, uint64_t max, uint64_t *ret, struct err *e)
{
	const char *text = args_get(a, name);
	struct err why;

	if (!text)
		return 0;
	if (str_to_u64(text, 1, max, ret, &why) < 0)
		return args_fail(e, "--%s: %s", name, why.msg);
	return 0;
}

/* The number of MB in one unit of a size; 0: not a unit. */
static double megabytes_of(const char *unit)
{
	static const char letters[] = "kmgt";
	const char *at = *unit ? strchr(letters, tolower((unsigned char)*unit)) : letters + 1;
	double mb = 1.0 / 1024;

	if (!at || (*unit && unit[1] && strcasecmp(unit + 1, "b") && strcasecmp(unit + 1, "ib")))
		return 0;
	for (const char *l = letters; l < at; l++)
		mb *= 1024;
	return mb;
}

int args_megabytes(
	const struct args *a, const char *name, uint64_t max, uint64_t *ret, struct err *e)
{
	const char *text = args_get(a, name);
	double v, mb;
	char *unit;

	if (!text)
		return 0;
	errno = 0;
	v = strtod(text, &unit);
	mb = unit == text || errno ? 0 : megabytes_of(unit);
	if (!mb || !isfinite(v) || v * mb < 1)
		return args_fail(
			e, "--%s: \"%s\" is not a number of MB, nor a size like 4G", name, text);
	if (v * mb > (double)max)
		return args_fail(e, "--%s: more than %llu MB", name, (unsigned long long)max);
	*ret = (uint64_t)(v * mb);
	return 0;
}

int args_pairs(const struct args *a, const char *name, bool from_env, json_t *into, struct err *e)
{
	const char *text;

	for (unsigned at = 0; (text = args_each(a, name, &at));) {
		const char *equals = strchr(text, '='), *value = equals ? equals + 1 : NULL;
		auto_free char *key =
			strndup(text, equals ? (size_t)(equals - text) : strlen(text));

		if (!key)
			return err_oom(e);
		if (!equals && from_env && *key) {
			value = getenv(text);
			if (!value)
				continue; /* not set in our environment: leave it unset in the
					     guest, as env(1) would */
		}
		if (!value || !*key)
			return args_fail(e, "--%s: \"%s\" is not NAME=VALUE", name, text);
		if (json_object_set_new(into, key, json_string(value)) < 0)
			return args_fail(e, "--%s %s: not UTF-8", name, key);
	}
	return 0;
}

int args_size(const struct args *a, const char *name, json_t **ret, struct err *e)
{
	const char *text = args_get(a, name);
	unsigned width, height;
	int end = -1;

	if (!text)
		return 0;
	if (sscanf(text, "%5ux%5u%n", &width, &height, &end) != 2 || text[end])
		return args_fail(e, "--%s: no size such as 1366x768: %s", name, text);
	return json_make(ret, e, "[i, i]", (int)width, (int)height);
}
