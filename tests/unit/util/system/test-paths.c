#include "util/system/paths.h"

#include "tap.h"
#include "scratch.h"

static void clear_all(void)
{
	static const char *const names[] = {"MOAT_HOME", "MOAT_RUNTIME_DIR", "MOAT_STATE_DIR",
		"MOAT_DATA_DIR", "MOAT_CACHE_DIR", "MOAT_CONFIG", "XDG_RUNTIME_DIR",
		"XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "HOME"};

	for (unsigned i = 0; i < ARRAY_LEN(names); i++)
		unsetenv(names[i]);
}

/* MOAT_X_DIR, MOAT_HOME, XDG's variable, HOME: the first one that is set and absolute counts. */
static void test_precedence(void)
{
	auto_paths struct paths p = {0};
	struct err e;

	clear_all();
	OK(paths_load(&p, &e) < 0 && strstr(e.msg, "HOME is not set") && !p.state);
	setenv("HOME", "/h", 1);
	OK(paths_load(&p, &e) == 0);
	STR_IS(p.state, "/h/.local/state/moat");
	STR_IS(p.data, "/h/.local/share/moat");
	STR_IS(p.cache, "/h/.cache/moat");
	STR_IS(p.config, "/h/.config/moat/config.yaml");
	STR_IS(p.socket, "/h/.local/state/moat/moat.sock");
	paths_free(&p);

	setenv("XDG_STATE_HOME", "/xs", 1);
	setenv("XDG_CONFIG_HOME", "/xc", 1);
	setenv("XDG_RUNTIME_DIR", "/run/user/1", 1);
	setenv("XDG_DATA_HOME", "relative/is/ignored", 1);
	setenv("XDG_CACHE_HOME", "", 1);
	OK(paths_load(&p, &e) == 0);
	STR_IS(p.state, "/xs/moat");
	STR_IS(p.config, "/xc/moat/config.yaml");
	STR_IS(p.socket, "/xs/moat/moat.sock"); /* logins differ in XDG_RUNTIME_DIR */
	STR_IS(p.data, "/h/.local/share/moat");
	STR_IS(p.cache, "/h/.cache/moat");
	paths_free(&p);

	setenv("MOAT_HOME", "/mh", 1);
	OK(paths_load(&p, &e) == 0);
	STR_IS(p.runtime, "/mh/run");
	STR_IS(p.state, "/mh/state");
	STR_IS(p.data, "/mh/data");
	STR_IS(p.cache, "/mh/cache");
	STR_IS(p.config, "/mh/config.yaml");
	paths_free(&p);

	setenv("MOAT_STATE_DIR", "/own-state", 1);
	setenv("MOAT_RUNTIME_DIR", "/own-run", 1);
	setenv("MOAT_CONFIG", "/own.yaml", 1);
	setenv("MOAT_DATA_DIR", "", 1);
	OK(paths_load(&p, &e) == 0);
	STR_IS(p.state, "/own-state");
	STR_IS(p.socket, "/own-run/moat.sock");
	STR_IS(p.config, "/own.yaml");
	STR_IS(p.data, "/mh/data");
	paths_free(&p);

	/* a mistake in a variable of moat's own must not lead to the usual directories */
	setenv("MOAT_DATA_DIR", "not/absolute", 1);
	OK(paths_load(&p, &e) < 0 && e.kind == ERR_INVALID);
	STR_IS(e.msg, "MOAT_DATA_DIR: \"not/absolute\" is not an absolute path");
	unsetenv("MOAT_DATA_DIR");
	setenv("MOAT_HOME", "./mine", 1);
	OK(paths_load(&p, &e) < 0 && strstr(e.msg, "MOAT_HOME"));
}

static void test_make(void)
{
	auto_paths struct paths p = {0};
	struct stat st;
	struct err e;

	clear_all();
	setenv("MOAT_HOME", at("home"), 1);
	OK(paths_load(&p, &e) == 0 && !path_exists(at("home")));
	OK(paths_make(&p, &e) == 0 && paths_make(&p, &e) == 0);
	OK(stat(p.runtime, &st) == 0 && (st.st_mode & 07777) == 0700);
	OK(path_exists(p.state) && path_exists(p.data) && path_exists(p.cache));
	OK(!path_exists(p.config));
	OK(chmod(p.runtime, 0777) == 0 && paths_make(&p, &e) == 0);
	OK(stat(p.runtime, &st) == 0 && (st.st_mode & 07777) == 0700);
}

/* Another user has made the directory first: their own, or a link to one of ours. Our own link to
 * a directory of ours is fine. */
static void test_foreign_runtime(void)
{
	auto_paths struct paths p = {0};
	struct err e;

	clear_all();
	setenv("MOAT_HOME", at("home2"), 1);
	OK(paths_load(&p, &e) == 0 && dir_make(at("home2/elsewhere"), 0700, &e) == 0);
	OK(symlink(at("home2/elsewhere"), p.runtime) == 0);
	OK(paths_make(&p, &e) == 0);
	if (getuid() == 0) {
		OK(lchown(p.runtime, 65534, 65534) == 0);
		OK(paths_make(&p, &e) < 0 && e.kind == ERR_PERMISSION);
	}
	OK(unlink(p.runtime) == 0 && mkdir(p.runtime, 0700) == 0);
	if (getuid() == 0) {
		OK(chown(p.runtime, 65534, 65534) == 0);
		OK(paths_make(&p, &e) < 0 && e.kind == ERR_PERMISSION);
		OK(strstr(e.msg, "not a directory of yours"));
	}
}

static void test_self(void)
{
	auto_free char *part = NULL, *none = NULL;
	struct err e;

	OK(paths_find_part(strrchr(self, '/') + 1, &part, &e) == 0);
	STR_IS(part, self);
	OK(paths_find_part("no-such-part", &none, &e) < 0 && e.kind == ERR_NOT_FOUND && !none);
}

static void test_ca_file(void)
{
	put_file(at("ca.pem"), "");
	setenv("SSL_CERT_FILE", at("ca.pem"), 1);
	STR_IS(paths_ca_file(), at("ca.pem"));
	unsetenv("SSL_CERT_FILE");
	OK(!paths_ca_file() || strcmp(paths_ca_file(), at("ca.pem")) != 0);
}

int main(void)
{
	umask(022);
	scratch_begin();
	test_precedence();
	test_make();
	test_foreign_runtime();
	test_self();
	test_ca_file();
	scratch_end();
	return tap_done();
}
