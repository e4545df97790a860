#include "store/recipe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/follow.h"
#include "store/manifest.h"
#include "util/auto.h"
#include "util/str.h"

enum {
	LOG_SIZE_MAX = 16 * 1024 * 1024,
	HOLD_AS = 120, /* the recipe's fd of the draft's hold: a number that shells do not use */
};

extern char **environ;

/* A recipe begins with "#!"; files that recipes include do not. */
static bool is_recipe(const char *path)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char head[2];
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && read(fd, head, 2) == 2 &&
	       memcmp(head, "#!", 2) == 0;
}

static bool has_recipe(const char *dir, const char *file)
{
	auto_free char *path = NULL;
	struct err ignored;

	return str_printf(&path, &ignored, "%s/%s", dir, file) == 0 && is_recipe(path);
}

/* Adds the names of recipes, ", tiny, debian12", as far as there is room. Those of the directory
 * `listed` are there already; NULL: none. */
static void list_recipes(const char *dir, const char *listed, char *out, size_t size)
{
	auto_name_list struct name_list files = {0};
	struct err ignored;
	size_t used = strlen(out);

	if (catalog_entries(dir, "", &files, &ignored) < 0)
		return;
	for (size_t i = 0; i < files.n; i++) {
		const char *name = files.items[i];
		int room = (int)(size - used), n;

		if (!str_ends(name, ".sh") || !has_recipe(dir, name) ||
			(listed && has_recipe(listed, name)))
			continue;
		n = snprintf(out + used, (size_t)room, "%s%.*s", used ? ", " : "",
			(int)(strlen(name) - 3), name);
		if (n >= room)
			return;
		used += (size_t)n;
	}
}

int recipe_find(const struct store *st, const char *name, char **ret, struct err *e)
{
	const char *const dirs[] = {st->own_recipes, st->recipes};
	char known[512] = "";

	if (check_image_name(name, e) < 0)
		return -1;
	for (unsigned i = 0; i < ARRAY_LEN(dirs); i++) {
		auto_free char *path = NULL;

		if (str_printf(&path, e, "%s/%s.sh", dirs[i], name) < 0)
			return -1;
		if (is_recipe(path)) {
			*ret = take_ptr(&path);
			return 0;
		}
		list_recipes(dirs[i], i ? dirs[i - 1] : NULL, known, sizeof(known));
	}
	if (!*known)
		return err_set(e, ERR_NOT_FOUND, "no recipe for \"%s\": there are none in %s", name,
			st->recipes);
	return err_set(e, ERR_NOT_FOUND, "no recipe for \"%s\"; there are: %s", name, known);
}

enum { ENV_OURS = 3 };
struct env {
	char **items; /* the first ENV_OURS are allocated, the others borrowed */
};

static void env_free(struct env *env)
{
	for (unsigned i = 0; env->items && i < ENV_OURS; i++)
		free(env->items[i]);
	free(env->items);
}

static size_t count(const char *const *v)
{
	size_t n = 0;

	while (v && v[n])
		n++;
	return n;
}

/* Whether one of the first n has the name of "NAME=VALUE". */
static bool has_name(char *const *items, size_t n, const char *var)
{
	size_t len = strcspn(var, "=");

	for (size_t i = 0; i < n; i++)
		if (strncmp(items[i], var, len) == 0 && items[i][len] == '=')
			return true;
	return false;
}

/* Makes the recipe's environment: ours, and the variables that recipes are promised. */
static int env_make(
	const struct store *st, const struct recipe_run *run, struct env *env, struct err *e)
{
	size_t n = count((const char *const *)environ), more = count(run->env), used = ENV_OURS;
	size_t ours;

	env->items = calloc(n + ENV_OURS + more + 1, sizeof(char *));
	if (!env->items)
		return err_oom(e);
	if (str_printf(&env->items[0], e, "MOAT_CACHE_DIR=%s", st->cache) < 0 ||
		str_printf(&env->items[1], e, "MOAT_IMAGE=%s", run->name) < 0 ||
		str_printf(&env->items[2], e, "MOAT_RECIPE_DIR=%s", st->recipes) < 0)
		return -1;
	for (size_t i = 0; i < more; i++)
		env->items[used++] = (char *)run->env[i];
	ours = used;
	for (size_t i = 0; i < n; i++)
		if (!has_name(env->items, ours, environ[i]))
			env->items[used++] = environ[i];
	return 0;
}

static void on_line(void *arg, const char *line)
{
	const struct op *op = arg;
	uint64_t done, total;
	const char *text;
	char shown[256];

	if (!tool_output_progress(line, &done, &total, &text))
		return;
	str_escape(text, strlen(text), shown, sizeof(shown));
	op_progress(op, done, total, "%s", shown);
}

int recipe_run(const struct op *op, struct draft *d, const struct recipe_run *run, struct err *e)
{
	const char *argv[] = {"sh", run->path, d->out, d->work, NULL};
	/* The recipe inherits the draft's hold: if we are killed, the draft counts as in use until
	 * the last process of the recipe has ended, and no sweep deletes it before. */
	struct proc_fd hold = {.fd = d->hold, .as = HOLD_AS};
	struct follow_req req = {
		.proc = {.argv = argv,
			.cwd = d->work,
			.fds = &hold,
			.n_fds = 1,
			.guard = d->st->helper_path},
		.on_line = on_line,
		.arg = (void *)op,
		.log_max = LOG_SIZE_MAX,
	};
	__attribute__((cleanup(env_free))) struct env env = {0};
	auto_fd int log = open(run->log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	char last[TOOL_OUTPUT_LINE_MAX + 1];
	int code;

	if (log < 0)
		return err_sys(e, errno, "%s", run->log);
	if (env_make(d->st, run, &env, e) < 0)
		return -1;
	req.proc.env = (const char *const *)env.items;
	req.log_fd = log;
	if (follow_run(op, &req, last, &code, e) < 0)
		return -1;
	if (code == 0)
		return 0;
	err_set(e, ERR_BACKEND, "%s (log: %s)", *last ? last : "the recipe failed without a word",
		run->log);
	e->sys = code;
	return -1;
}
