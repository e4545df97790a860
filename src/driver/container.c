#include "driver/container.h"

#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"
#include "wire/service.h"

/* Docker's defaults of a HEALTHCHECK. */
enum { HEALTH_SECONDS = 30, HEALTH_RETRIES = 3 };

/* Bounds as those of a spec: else an image could have its check run without a pause. */
#define INTERVAL_MIN 0.1

/* ---- words and variables ---- */

static void add_words(const json_t *list, struct strv *ret)
{
	json_t *one;
	size_t i;

	json_array_foreach(list, i, one)
		if (json_is_string(one))
			strv_add(ret, json_string_value(one));
}

static void add_texts(char *const *texts, size_t n, struct strv *ret)
{
	for (size_t i = 0; i < n; i++)
		strv_add(ret, texts[i]);
}

/* An entrypoint of the spec makes the image's command void: it was meant for another program. */
static void set_argv(const json_t *image, const struct service_spec *s, struct strv *ret)
{
	if (s && s->entrypoint_given)
		add_texts(s->entrypoint, s->n_entrypoint, ret);
	else
		add_words(json_object_get(image, "entrypoint"), ret);
	if (s && s->command_given)
		add_texts(s->command, s->n_command, ret);
	else if (!s || !s->entrypoint_given)
		add_words(json_object_get(image, "cmd"), ret);
}

static bool is_set(const struct strv *env, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < env->n; i++)
		if (strncmp(env->v[i], name, len) == 0 && env->v[i][len] == '=')
			return true;
	return false;
}

/* The spec's first: of two with one name, the first that is added counts. */
static void set_env(
	const json_t *image, const struct service_spec *s, const char *hostname, struct strv *ret)
{
	const char *name;
	json_t *value;
	size_t i;

	if (s)
		json_object_foreach(s->environment, name, value)
			strv_addf(ret, "%s=%s", name, json_string_value(value));
	json_array_foreach(json_object_get(image, "env"), i, value) {
		const char *text = json_string_value(value);
		auto_free char *known = NULL;

		if (!text || text[0] == '=' || !strchr(text, '='))
			continue;
		known = strndup(text, strcspn(text, "="));
		if (known && !is_set(ret, known))
			strv_add(ret, text);
	}
	if (!is_set(ret, "HOSTNAME"))
		strv_addf(ret, "HOSTNAME=%s", hostname);
}

static void set_volumes(const json_t *image, struct strv *ret)
{
	json_t *value;
	size_t i;

	json_array_foreach(json_object_get(image, "volumes"), i, value) {
		const char *path = json_string_value(value);

		if (path && *path)
			strv_addf(ret, "%s%s", *path == '/' ? "" : "/", path);
	}
}

/* ---- names ---- */

static int host_name(const struct vm_spec *vm, char **ret, struct err *e)
{
	const char *own = vm->service ? vm->service->hostname : NULL;

	if (str_dup(own ? own : vm->service ? vm->service->name : vm->name, ret, e) < 0)
		return -1;
	for (char *c = *ret; !own && *c; c++)
		if (*c == '_')
			*c = '-';
	return 0;
}

/* The colon without a group means to init and runner: as in a container, where a number that the
 * image does not know is in the group of root. */
static int user_name(const json_t *image, const struct vm_spec *vm, char **ret, struct err *e)
{
	const char *user = json_string_value(json_object_get(image, "user"));

	if (vm->service && vm->service->user)
		user = vm->service->user;
	if (!user || !*user)
		user = "root";
	return str_printf(ret, e, "%s%s", user,
		strchr(user, ':') || !isdigit((unsigned char)*user) ? "" : ":");
}

static int signal_number(const char *name)
{
	static const struct {
		const char *name;
		int number;
	} known[] = {{"HUP", SIGHUP}, {"INT", SIGINT}, {"QUIT", SIGQUIT}, {"KILL", SIGKILL},
		{"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"TERM", SIGTERM}, {"WINCH", SIGWINCH},
		{"PWR", SIGPWR}, {"STOP", SIGSTOP}, {"CONT", SIGCONT}, {"ALRM", SIGALRM},
		{"ABRT", SIGABRT}};
	unsigned first = 34, offset = 0; /* SIGRTMIN in programs of guests, whatever libc has it */

	if (!name || !*name)
		return SIGTERM;
	if (isdigit((unsigned char)*name))
		return atoi(name) > 0 && atoi(name) < 65 ? atoi(name) : SIGTERM;
	if (strncmp(name, "SIG", 3) == 0)
		name += 3;
	if (strncmp(name, "RTMIN+", 6) == 0) {
		offset = (unsigned)atoi(name + 6);
		return offset <= 30 ? (int)(first + offset) : SIGTERM;
	}
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (strcmp(name, known[i].name) == 0)
			return known[i].number;
	return SIGTERM;
}

/* ---- the healthcheck ---- */

static void health_free(struct healthcheck_spec *h)
{
	for (size_t i = 0; h && i < h->n_test; i++)
		free(h->test[i]);
	if (h)
		free(h->test);
	free(h);
}

static double seconds(const json_t *check, const char *name, double otherwise)
{
	double s = json_number_value(json_object_get(check, name));

	return s > 0 && s < 86400 ? s : otherwise;
}

/* ["NONE"], ["CMD", ...] or ["CMD-SHELL", "..."]; what else there may be is no check. */
static int image_health(const json_t *image, struct healthcheck_spec **ret, struct err *e)
{
	const json_t *check = json_object_get(image, "healthcheck");
	const json_t *test = json_object_get(check, "test");
	const char *kind = json_string_value(json_array_get(test, 0));
	auto_strv struct strv words = {0};
	json_int_t retries = json_integer_value(json_object_get(check, "retries"));
	struct healthcheck_spec *h;

	add_words(test, &words);
	if (!kind || words.n < 2 || (strcmp(kind, "CMD") != 0 && strcmp(kind, "CMD-SHELL") != 0))
		return 0;
	if (strcmp(kind, "CMD-SHELL") == 0) {
		strv_free(&words);
		words = (struct strv){0};
		strv_add_all(&words, "CMD", "/bin/sh", "-c", NULL);
		strv_add(&words, json_string_value(json_array_get(test, 1)));
	}
	if (strv_check(&words, e) < 0)
		return -1;
	h = calloc(1, sizeof(*h));
	if (!h || !(h->test = calloc(words.n, sizeof(char *)))) {
		free(h);
		return err_oom(e);
	}
	h->kind = SPEC_HEALTH_TEST;
	for (size_t i = 1; i < words.n; i++)
		h->test[h->n_test++] = take_ptr(&words.v[i]);
	words.n = 1; /* the rest was taken */
	h->interval = seconds(check, "interval", HEALTH_SECONDS);
	if (h->interval < INTERVAL_MIN)
		h->interval = INTERVAL_MIN;
	h->timeout = (unsigned)(seconds(check, "timeout", HEALTH_SECONDS) + 0.999);
	h->timeout += h->timeout == 0; /* which would be none */
	h->start_period = seconds(check, "start_period", 0);
	h->retries = retries > 0 && retries < 100000 ? (unsigned)retries : HEALTH_RETRIES;
	*ret = h;
	return 0;
}

/* None at all are fine, too. */
static int check_words(const struct strv *v, struct err *e)
{
	return v->n || v->failed ? strv_check(v, e) : 0;
}

int container_make(
	const json_t *image, const struct vm_spec *vm, struct container **ret, struct err *e)
{
	const char *cwd = json_string_value(json_object_get(image, "working_dir"));
	struct container *c = calloc(1, sizeof(*c));

	if (!c)
		return err_oom(e);
	if (vm->service && vm->service->working_dir)
		cwd = vm->service->working_dir;
	c->stop_signal = signal_number(json_string_value(json_object_get(image, "stop_signal")));
	set_argv(image, vm->service, &c->argv);
	if (host_name(vm, &c->hostname, e) == 0 && user_name(image, vm, &c->user, e) == 0 &&
		str_printf(&c->cwd, e, "%s%s", cwd && *cwd == '/' ? "" : "/", cwd ? cwd : "") ==
			0) {
		set_env(image, vm->service, c->hostname, &c->env);
		set_volumes(image, &c->volumes);
		if (check_words(&c->argv, e) == 0 && check_words(&c->volumes, e) == 0 &&
			strv_check(&c->env, e) == 0 &&
			(vm->healthcheck || vm->no_healthcheck ||
				image_health(image, &c->healthcheck, e) == 0)) {
			*ret = c;
			return 0;
		}
	}
	container_free(c);
	return -1;
}

void container_free(struct container *c)
{
	if (!c)
		return;
	strv_free(&c->argv);
	strv_free(&c->env);
	strv_free(&c->volumes);
	health_free(c->healthcheck);
	free(c->cwd);
	free(c->user);
	free(c->hostname);
	free(c);
}

/* ---- what init is told ---- */

static void put(struct buf *b, const char *key, const char *value)
{
	buf_put(b, key, strlen(key) + 1);
	buf_put(b, value, strlen(value) + 1);
}

#define putf(b, key, ...)                                                                          \
	(buf_put(b, key, sizeof(key)), buf_putf(b, __VA_ARGS__), buf_put(b, "", 1))

static void put_tmpfs(struct buf *b, const struct tmpfs_spec *t)
{
	const char *mode = t->mode ? t->mode : "1777";

	if (t->size_mb)
		putf(b, SERVICE_TMPFS, "mode=%s,size=%um %s", mode, t->size_mb, t->path);
	else
		putf(b, SERVICE_TMPFS, "mode=%s %s", mode, t->path);
}

/* "1024:4096", or "1024" for both. */
static void put_limit(struct buf *b, const char *name, const char *value)
{
	const char *colon = strchr(value, ':');

	if (colon)
		putf(b, SERVICE_LIMIT, "%s %.*s %s", name, (int)(colon - value), value, colon + 1);
	else
		putf(b, SERVICE_LIMIT, "%s %s %s", name, value, value);
}

static void put_hosts(struct buf *b, const json_t *hosts, uint32_t gateway)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)hosts, name, value) {
		const char *address = json_string_value(value);
		char text[IPV4_TEXT_MAX];

		if (strcmp(address, "gateway") == 0 && !gateway)
			continue;
		if (strcmp(address, "gateway") == 0)
			address = ipv4_text(gateway, text);
		putf(b, SERVICE_HOST, "%s\t%s", address, name);
	}
}

static void put_service(struct buf *b, const struct service_spec *s, uint32_t gateway)
{
	static const char *const restarts[] = {
		[SPEC_RESTART_NO] = "no",
		[SPEC_RESTART_ALWAYS] = "always",
		[SPEC_RESTART_ON_FAILURE] = "on-failure",
		[SPEC_RESTART_UNLESS_STOPPED] = "always",
	};
	const char *name;
	json_t *value;

	put(b, SERVICE_RESTART, restarts[s->restart]);
	putf(b, SERVICE_RESTART_MAX, "%u", s->restart_max);
	if (s->shm_size_mb)
		putf(b, SERVICE_SHM_MB, "%u", s->shm_size_mb);
	for (size_t i = 0; i < s->n_volumes; i++)
		put(b, SERVICE_VOLUME, s->volumes[i]);
	for (size_t i = 0; i < s->n_tmpfs; i++)
		put_tmpfs(b, &s->tmpfs[i]);
	for (size_t i = 0; i < s->n_binds; i++)
		if (s->binds[i].read_only)
			put(b, SERVICE_READ_ONLY, s->binds[i].path);
	put_hosts(b, s->extra_hosts, gateway);
	json_object_foreach(s->sysctls, name, value)
		putf(b, SERVICE_SYSCTL, "%s=%s", name, json_string_value(value));
	json_object_foreach(s->ulimits, name, value)
		put_limit(b, name, json_string_value(value));
}

int container_record(const struct container *c, const struct service_spec *s, unsigned addresses,
	uint32_t gateway, struct buf *ret, struct err *e)
{
	for (size_t i = 0; i < c->argv.n; i++)
		put(ret, SERVICE_ARG, c->argv.v[i]);
	for (size_t i = 0; i < c->env.n; i++)
		put(ret, SERVICE_ENV, c->env.v[i]);
	for (size_t i = 0; i < c->volumes.n; i++)
		put(ret, SERVICE_VOLUME, c->volumes.v[i]);
	put(ret, SERVICE_CWD, c->cwd);
	put(ret, SERVICE_USER, c->user);
	put(ret, SERVICE_HOSTNAME, c->hostname);
	putf(ret, SERVICE_STOP_SIGNAL, "%d", c->stop_signal);
	putf(ret, SERVICE_ADDRESSES, "%u", addresses);
	if (s)
		put_service(ret, s, gateway);
	if (buf_check(ret, e) < 0)
		return -1;
	if (ret->len > SERVICE_RECORD_MAX)
		return err_set(e, ERR_LIMIT,
			"command, variables and settings of the service are larger than %d MiB",
			SERVICE_RECORD_MAX >> 20);
	return 0;
}

int container_cwd(const struct container *c, const char *cwd, char **ret, struct err *e)
{
	if (cwd && *cwd == '/')
		return str_dup(cwd, ret, e);
	if (!cwd || !*cwd)
		return str_dup(c->cwd, ret, e);
	return str_printf(ret, e, "%s/%s", c->cwd, cwd);
}
