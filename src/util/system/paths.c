#include "util/system/paths.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/system/io.h"
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

/* The variable's value if it is an absolute path; XDG says that relative ones are to be ignored. */
static const char *env_path(const char *name)
{
	const char *v = getenv(name);

	return v && v[0] == '/' ? v : NULL;
}

struct directory {
	const char *own;      /* MOAT_X_DIR: used as it is */
	const char *below;    /* directory below MOAT_HOME */
	const char *xdg;      /* XDG variable: "moat" is appended */
	const char *fallback; /* below HOME: "moat" is appended */
};

static int directory_path(const struct directory *d, char **ret, struct err *e)
{
	const char *v;

	if ((v = env_path(d->own)))
		return str_dup(v, ret, e);
	if ((v = env_path("MOAT_HOME")))
		return str_printf(ret, e, "%s/%s", v, d->below);
	if ((v = env_path(d->xdg)))
		return str_printf(ret, e, "%s/moat", v);
	v = env_path("HOME");
	if (!v)
		return err_set(e, ERR_INVALID, "HOME is not set: set it, or MOAT_HOME");
	return str_printf(ret, e, "%s/%s/moat", v, d->fallback);
}

/* The socket is not in XDG_RUNTIME_DIR: the logins of a user differ in it, or have none, and it is
 * removed after the last logout. All of them have the same state directory. */
static int runtime_path(const char *state, char **ret, struct err *e)
{
	const char *v;

	if ((v = env_path("MOAT_RUNTIME_DIR")))
		return str_dup(v, ret, e);
	if ((v = env_path("MOAT_HOME")))
		return str_printf(ret, e, "%s/run", v);
	return str_dup(state, ret, e);
}

/* MOAT_ variables are not XDG's: a user who sets one wants another moat, and must not get the usual
 * one because of a mistake. */
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
	static const struct directory state = {
		"MOAT_STATE_DIR", "state", "XDG_STATE_HOME", ".local/state"};
	static const struct directory data = {
		"MOAT_DATA_DIR", "data", "XDG_DATA_HOME", ".local/share"};
	static const struct directory cache = {
		"MOAT_CACHE_DIR", "cache", "XDG_CACHE_HOME", ".cache"};
	auto_paths struct paths p = {0};

	if (check_own(e) < 0)
		return -1;
	if (directory_path(&state, &p.state, e) < 0 || runtime_path(p.state, &p.runtime, e) < 0 ||
		directory_path(&data, &p.data, e) < 0 || directory_path(&cache, &p.cache, e) < 0 ||
		config_path(&p.config, e) < 0 ||
		str_printf(&p.socket, e, "%s/moat.sock", p.runtime) < 0)
		return -1;
	*ret = p;
	p = (struct paths){0};
	return 0;
}

/*
 * The socket's directory must be ours alone. It may be a symbolic link of ours, or of root's: state
 * directories are moved to larger disks. A link of another user could lead anywhere.
 */
static int check_private(const char *path, struct err *e)
{
	struct stat link, dir;

	if (lstat(path, &link) < 0 || stat(path, &dir) < 0)
		return err_sys(e, errno, "%s", path);
	if ((link.st_uid != getuid() && link.st_uid != 0) || !S_ISDIR(dir.st_mode) ||
		dir.st_uid != getuid())
		return err_set(e, ERR_PERMISSION, "%s is not a directory of yours", path);
	if ((dir.st_mode & 077) && chmod(path, 0700) < 0)
		return err_sys(e, errno, "chmod %s", path);
	return 0;
}

int paths_make(const struct paths *p, struct err *e)
{
	if (dir_make(p->state, 0700, e) < 0 || dir_make(p->runtime, 0700, e) < 0 ||
		check_private(p->runtime, e) < 0 || dir_make(p->data, 0700, e) < 0 ||
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
	if (str_ends(buf, " (deleted)")) /* the binary was replaced while we run */
		buf[n - (ssize_t)strlen(" (deleted)")] = 0;
	return str_dup(buf, ret, e);
}

int paths_find_part(const char *name, char **ret, struct err *e)
{
	/* Beside the binary; the build tree; an installed tree; the sources, which have the
	 * recipes. */
	static const char *const where[] = {"", "../moat-guest/", "../moat-init/", "../",
		"../lib/moat/", "../libexec/moat/", "../../", "../../../", NULL};
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

const char *paths_ca_file(void)
{
	/* Debian and Arch; Fedora and RHEL; openSUSE; Alpine and others. */
	static const char *const usual[] = {"/etc/ssl/certs/ca-certificates.crt",
		"/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};
	const char *v = getenv("SSL_CERT_FILE");

	if (v && *v)
		return v;
	for (size_t i = 0; i < ARRAY_LEN(usual); i++)
		if (path_exists(usual[i]))
			return usual[i];
	return NULL;
}
