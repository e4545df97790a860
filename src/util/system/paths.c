#include "util/paths.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/io.h"
#include "util/str.h"

void paths_free(struct paths *p)
{
	free(p->runtime);
	free(p->state);
	free(p->data);
	free(p->cache);
	free(p->config);
	free(p->socket);
	*p = (struct paths){0};
}

/* A variable counts when it is set and absolute; XDG says that relative ones are to be ignored. */
static const char *env_path(const char *name)
{
	const char *v = getenv(name);

	return v && v[0] == '/' ? v : NULL;
}

struct place {
	const char *own;      /* MOAT_X_DIR: used as it is */
	const char *below;    /* directory below MOAT_HOME */
	const char *xdg;      /* XDG variable: "moat" is appended */
	const char *fallback; /* below HOME */
};

static int place_path(const struct place *at, char **ret, struct err *e)
{
	const char *v;

	if ((v = env_path(at->own)))
		return str_dup(v, ret, e);
	if ((v = env_path("MOAT_HOME")))
		return str_printf(ret, e, "%s/%s", v, at->below);
	if ((v = env_path(at->xdg)))
		return str_printf(ret, e, "%s/moat", v);
	if (!at->fallback)
		return str_printf(ret, e, "/tmp/moat-%u", (unsigned)getuid());
	v = env_path("HOME");
	if (!v)
		return err_set(e, ERR_INVALID, "HOME is not set: set it, or MOAT_HOME");
	return str_printf(ret, e, "%s/%s/moat", v, at->fallback);
}

/* Ours are not XDG's: whoever has set one means another moat, and must not get the usual one. */
static int check_own(struct err *e)
{
	static const char *const own[] = {"MOAT_HOME", "MOAT_RUNTIME_DIR", "MOAT_STATE_DIR",
		"MOAT_DATA_DIR", "MOAT_CACHE_DIR", "MOAT_CONFIG"};

	for (size_t i = 0; i < ARRAY_LEN(own); i++) {
		const char *v = getenv(own[i]);

		if (v && *v && *v != '/')
			return err_set(e, ERR_INVALID, "%s: \"%.200s\" is not an absolute path",
				own[i], v);
	}
	return 0;
}

static int config_path(char **ret, struct err *e)
{
	const char *v;

	if ((v = env_path("MOAT_CONFIG")))
		return str_dup(v, ret, e);
	if ((v = env_path("MOAT_HOME")))
		return str_printf(ret, e, "%s/config.yaml", v);
	if ((v = env_path("XDG_CONFIG_HOME")))
		return str_printf(ret, e, "%s/moat/config.yaml", v);
	v = env_path("HOME");
	return str_printf(ret, e, "%s/.config/moat/config.yaml", v ? v : "");
}

int paths_load(struct paths *ret, struct err *e)
{
	static const struct place runtime = {"MOAT_RUNTIME_DIR", "run", "XDG_RUNTIME_DIR", NULL};
	static const struct place state = {
		"MOAT_STATE_DIR", "state", "XDG_STATE_HOME", ".local/state"};
	static const struct place data = {"MOAT_DATA_DIR", "data", "XDG_DATA_HOME", ".local/share"};
	static const struct place cache = {"MOAT_CACHE_DIR", "cache", "XDG_CACHE_HOME", ".cache"};
	auto_paths struct paths p = {0};

	if (check_own(e) < 0)
		return -1;
	if (place_path(&runtime, &p.runtime, e) < 0 || place_path(&state, &p.state, e) < 0 ||
		place_path(&data, &p.data, e) < 0 || place_path(&cache, &p.cache, e) < 0 ||
		config_path(&p.config, e) < 0 ||
		str_printf(&p.socket, e, "%s/moat.sock", p.runtime) < 0)
		return -1;
	if (strlen(p.socket) >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return err_set(e, ERR_INVALID,
			"%s: too long for a socket; set MOAT_RUNTIME_DIR to a shorter directory",
			p.socket);
	*ret = p;
	p = (struct paths){0};
	return 0;
}

/* The fallback runtime directory is below /tmp, where anybody could have made it first. */
static int check_private(const char *path, struct err *e)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return err_sys(e, errno, "%s", path);
	if (!S_ISDIR(st.st_mode) || st.st_uid != getuid())
		return err_set(e, ERR_PERMISSION, "%s is not a directory of yours", path);
	if ((st.st_mode & 077) && chmod(path, 0700) < 0)
		return err_sys(e, errno, "chmod %s", path);
	return 0;
}

int paths_make(const struct paths *p, struct err *e)
{
	if (dir_make(p->runtime, 0700, e) < 0 || check_private(p->runtime, e) < 0 ||
		dir_make(p->state, 0700, e) < 0 || dir_make(p->data, 0700, e) < 0 ||
		dir_make(p->cache, 0700, e) < 0)
		return -1;
	return 0;
}

static int find_self(char **ret, struct err *e)
{
	char buf[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", buf, sizeof(buf) - 1);

	if (n < 0)
		return err_sys(e, errno, "/proc/self/exe");
	buf[n] = 0;
	if (str_ends(buf, " (deleted)")) /* rebuilt or upgraded while we run */
		buf[n - (ssize_t)strlen(" (deleted)")] = 0;
	return str_dup(buf, ret, e);
}

int paths_find_part(const char *name, char **ret, struct err *e)
{
	/* Beside the binary; an installed tree; the build tree. */
	static const char *const where[] = {"", "../", "../lib/moat/", "../libexec/moat/", "../../",
		"../runner/", "../../../", NULL};
	auto_free char *self = NULL;

	if (find_self(&self, e) < 0)
		return -1;
	*strrchr(self, '/') = 0;
	for (unsigned i = 0; where[i]; i++) {
		auto_free char *path = NULL;

		if (str_printf(&path, e, "%s/%s%s", self, where[i], name) < 0)
			return -1;
		if (path_exists(path)) {
			*ret = realpath(path, NULL);
			return *ret ? 0 : err_sys(e, errno, "%s", path);
		}
	}
	return err_set(e, ERR_NOT_FOUND, "%s is not installed with moat", name);
}
