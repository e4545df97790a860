/*
 * Runs every file of tests/golden/compose: valid-NAME.yaml must give valid-NAME.json, and
 * bad-NAME.yaml must be refused with the message in bad-NAME.err. evals.json has the structure of
 * the compose files of public evals, each with what becomes of it.
 */
#include "compose/compose.h"

#include <dirent.h>

#include "spec/yaml.h"
#include "tap.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"
#include "util/system/io.h"

#define DIRECTORY "/eval/task"

static const char *base_name(const char *path)
{
	return strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
}

/* Files of the golden directory, wherever they are said to be. */
static int read_golden(void *arg, const char *path, char **ret, size_t *ret_len, struct err *e)
{
	auto_free char *real = NULL;

	(void)arg;
	if (str_printf(&real, e, COMPOSE_GOLDEN "/%s", base_name(path)) < 0)
		return -1;
	if (file_read(real, SPEC_TEXT_MAX, ret, ret_len, e) < 0)
		return err_set(e, ERR_NOT_FOUND, "%s: not found", path);
	return 0;
}

static char *read_expected(const char *name, const char *ending)
{
	auto_free char *other = NULL;
	char *text = NULL;
	size_t len;
	struct err e;

	if (str_printf(&other, &e, "%.*s%s", (int)(strrchr(name, '.') - name), name, ending) < 0 ||
		read_golden(NULL, other, &text, &len, &e) < 0)
		return NULL;
	return text;
}

static int translate(const char *name, json_t **ret, struct err *e)
{
	auto_json json_t *env =
		json_pack("{s:s, s:s, s:s}", "HOME", "/home/kim", "TAG", "1.2", "EMPTY", "");
	auto_free char *path = NULL;

	if (str_printf(&path, e, DIRECTORY "/%s", name) < 0)
		return -1;
	return compose_translate(&(struct compose_req){.path = path,
					 .directory = DIRECTORY,
					 .env = env,
					 .closed = str_starts(name, "valid-closed"),
					 .files = {.read = read_golden}},
		ret, e);
}

static void check_valid(const char *name)
{
	auto_free char *expected = read_expected(name, ".json");
	auto_json json_t *want = expected ? json_loads(expected, 0, NULL) : NULL, *got = NULL;
	struct err e;

	if (!tap_ok(translate(name, &got, &e) == 0, "%s is accepted", name)) {
		printf("# %s\n", e.msg);
		return;
	}
	if (!tap_ok(want && json_equal(got, want), "%s becomes the spec expected", name)) {
		auto_free char *shown = json_dumps(got, JSON_INDENT(2));

		printf("# got:\n%s\n", shown);
	}
}

static void check_bad(const char *name)
{
	auto_free char *expected = read_expected(name, ".err");
	json_t *got = NULL;
	struct err e = {0};

	if (expected)
		expected[strcspn(expected, "\n")] = '\0';
	if (tap_ok(translate(name, &got, &e) < 0, "%s is refused", name))
		tap_str(e.msg, expected, name);
	tap_ok(!got && (e.kind == ERR_INVALID || e.kind == ERR_UNSUPPORTED ||
			       e.kind == ERR_NOT_FOUND),
		"%s: a kind of error that says whose fault it is", name);
	json_decref(got);
}

static int run_golden(void)
{
	auto_dir DIR *dir = opendir(COMPOSE_GOLDEN);
	const struct dirent *d;
	int files = 0;

	while (dir && (d = readdir(dir))) {
		if (str_starts(d->d_name, "valid-") && !str_ends(d->d_name, ".json"))
			check_valid(d->d_name);
		else if (str_starts(d->d_name, "bad-") && str_ends(d->d_name, ".yaml"))
			check_bad(d->d_name);
		else
			continue;
		files++;
	}
	return files;
}

/* ---- compose files of public evals ---- */

static int read_object(void *arg, const char *path, char **ret, size_t *ret_len, struct err *e)
{
	const json_t *file = json_object_get(arg, path);
	char *text;

	if (!file)
		return err_set(e, ERR_NOT_FOUND, "%s: not found", path);
	text = json_is_string(file) ? strdup(json_string_value(file)) : json_dumps(file, 0);
	if (!text)
		return err_oom(e);
	*ret_len = strlen(text);
	*ret = text;
	return 0;
}

static bool check_eval(const json_t *eval, struct err *e)
{
	const char *path = json_string_value(json_object_get(eval, "path"));
	const char *error = json_string_value(json_object_get(eval, "error"));
	auto_json json_t *got = NULL, *env = json_pack("{s:s, s:s}", "SAMPLE_METADATA_A", "image-a",
					      "SAMPLE_METADATA_B", "image-b");
	auto_free char *directory = strndup(path, (size_t)(strrchr(path, '/') - path));
	int rc = compose_translate(
		&(struct compose_req){.path = path,
			.directory = directory,
			.env = env,
			.files = {.read = read_object, .arg = json_object_get(eval, "files")}},
		&got, e);

	if (rc < 0)
		return tap_str(e->msg, error, path);
	if (!tap_ok(json_equal(got, json_object_get(eval, "becomes")),
		    "%s becomes the spec expected", path)) {
		auto_free char *shown = json_dumps(got, 0);

		printf("# got: %s\n", shown);
	}
	return true;
}

/* Of the compose files of inspect_evals 0.26.0, with how many there are of each structure. */
static void check_evals(void)
{
	auto_free char *text = NULL;
	auto_json json_t *evals = NULL;
	json_int_t all = 0, accepted = 0;
	json_t *eval;
	size_t len, i;
	struct err e;

	OK(file_read(COMPOSE_GOLDEN "/evals.json", 1 << 24, &text, &len, &e) == 0);
	evals = text ? json_loads(text, 0, NULL) : NULL;
	OK(json_is_array(evals));
	json_array_foreach(evals, i, eval) {
		json_int_t n = json_integer_value(json_object_get(eval, "count"));

		all += n;
		accepted += check_eval(eval, &e) && !json_object_get(eval, "error") ? n : 0;
	}
	printf("# %lld of %lld are accepted\n", (long long)accepted, (long long)all);
	OK(all == 146);
	OK(accepted >= 140);
}

static void test_names(void)
{
	OK(compose_is_dockerfile("Dockerfile") && compose_is_dockerfile("/a/Dockerfile.dev"));
	OK(compose_is_dockerfile("a/web.Dockerfile") && !compose_is_dockerfile("Dockerfiles"));
	OK(compose_is_compose_file("compose.yaml") &&
		compose_is_compose_file("x/docker-compose.yml"));
	OK(compose_is_compose_file("lab-compose.yaml") &&
		compose_is_compose_file("lab.compose.yml"));
	OK(!compose_is_compose_file("decompose.yaml") && !compose_is_compose_file("moat.yaml"));
}

int main(void)
{
	OK(run_golden() >= 30);
	check_evals();
	test_names();
	return tap_done();
}
