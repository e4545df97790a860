#include "cli/client/access.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/system/io.h"
#include "util/json.h"
#include "util/str.h"

#define CACHE_DIR "INSPECT_SANDBOX_CACHE_DIR" /* a directory that Vagrant sandboxes use */

enum { CONFIG_MAX = 1024 * 1024, PORT = 8006 };

static int from_file(const char *path, json_t **ret, struct err *e)
{
	auto_json json_t *j = NULL;
	auto_free char *text = NULL;
	size_t len = 0;

	if (file_read(path, CONFIG_MAX, &text, &len, e) < 0)
		return err_wrap(e, "PROXMOX_CONFIG_FILE");
	if (json_parse_object((struct bytes){(uint8_t *)text, len}, &j, e) < 0)
		return err_wrap(e, "%s", path);
	if (!json_is_array(json_object_get(j, "instances")))
		return err_set(e, ERR_INVALID, "%s: there is no list \"instances\"", path);
	return json_make(ret, e, "{s:O}", "instances", json_object_get(j, "instances"));
}

static int number(const char *name, const char *text, uint64_t max, json_t *to, const char *key,
	struct err *e)
{
	uint64_t n;

	if (str_empty(text))
		return 0;
	if (str_to_u64(text, 0, max, &n, e) < 0)
		return err_wrap(e, "%s", name);
	json_object_set_new(to, key, json_integer((json_int_t)n));
	return 0;
}

static int from_variables(const char *host, json_t **ret, struct err *e)
{
	static const struct {
		const char *name, *key, *otherwise;
	} texts[] = {
		{"PROXMOX_USER", "user", "root"},
		{"PROXMOX_REALM", "user_realm", "pam"},
		{"PROXMOX_PASSWORD", "password", NULL},
		{"PROXMOX_TOKEN", "token", NULL},
		{"PROXMOX_NODE", "node", "proxmox"},
		{"PROXMOX_FINGERPRINT", "fingerprint", NULL},
		{"PROXMOX_IMAGE_STORAGE", "image_storage", "local-lvm"},
		{"PROXMOX_ISO_STORAGE", "iso_storage", NULL},
		{"PROXMOX_IMPORT_STORAGE", "import_storage", NULL},
	};
	const char *verify = getenv("PROXMOX_VERIFY_TLS");
	json_t *one = json_pack("{s:s, s:s, s:s, s:i, s:b}", "instance_id", "default", "pool_id",
		"default", "host", host, "port", PORT, "verify_tls",
		!verify || strcmp(verify, "1") == 0);

	if (!one)
		return err_set(e, ERR_INVALID, "PROXMOX_HOST is not UTF-8");
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		const char *value = getenv(texts[i].name);

		if (str_empty(value))
			value = texts[i].otherwise;
		if (value && json_object_set_new(one, texts[i].key, json_string(value)) < 0) {
			json_decref(one);
			return err_set(e, ERR_INVALID, "%s is not UTF-8", texts[i].name);
		}
	}
	if (number("PROXMOX_PORT", getenv("PROXMOX_PORT"), 65535, one, "port", e) < 0 ||
		number("PROXMOX_MAX_SANDBOXES", getenv("PROXMOX_MAX_SANDBOXES"), 100000, one,
			"max_sandboxes", e) < 0) {
		json_decref(one);
		return -1;
	}
	return json_make(ret, e, "{s:[o]}", "instances", one);
}

int access_load(json_t **ret, struct err *e)
{
	const char *file = getenv("PROXMOX_CONFIG_FILE"), *host = getenv("PROXMOX_HOST");

	*ret = NULL;
	if (!str_empty(file))
		return from_file(file, ret, e);
	return str_empty(host) ? 0 : from_variables(host, ret, e);
}

int access_add(json_t *args, struct err *e)
{
	json_t *access;

	if (access_load(&access, e) < 0)
		return -1;
	if (access && json_object_set_new(args, "access", access) < 0)
		return err_oom(e);
	return 0;
}

extern char **environ;

/* The value to send. CACHE_DIR becomes absolute: the daemon has another working directory. */
static json_t *value_of(const char *name, const char *value)
{
	char here[PATH_MAX];

	if (strcmp(name, CACHE_DIR) == 0 && *value && *value != '/' && getcwd(here, sizeof(here)))
		return json_sprintf("%s/%s", here, value);
	return json_string(value);
}

int access_environment(json_t **ret, struct err *e)
{
	auto_json json_t *env = json_object();

	if (!env)
		return err_oom(e);
	for (char **at = environ; *at; at++) {
		const char *equals = strchr(*at, '=');
		char name[256];

		if (!equals || equals == *at || (size_t)(equals - *at) >= sizeof(name))
			continue;
		memcpy(name, *at, (size_t)(equals - *at));
		name[equals - *at] = 0;
		/* Fails, and skips the variable, if the value is not UTF-8. */
		json_object_set_new(env, name, value_of(name, equals + 1));
	}
	*ret = take_ptr(&env);
	return 0;
}

/* All of the environment: Vagrant reads PATH, VAGRANT_HOME and more, and a Vagrantfile can read any
 * variable. */
static int environment(json_t **ret, struct err *e)
{
	json_t *env;

	return access_environment(&env, e) < 0 ? -1 : json_make(ret, e, "{s:o}", "env", env);
}

int access_add_all(json_t *args, struct err *e)
{
	auto_json json_t *servers = NULL;
	json_t *access;

	if (access_load(&servers, e) < 0 || environment(&access, e) < 0)
		return -1;
	if (servers)
		json_object_update(access, servers);
	return json_object_set_new(args, "access", access) < 0 ? err_oom(e) : 0;
}

int access_add_for(json_t *args, const char *driver, struct err *e)
{
	json_t *access;

	if (strcmp(driver, "proxmox") == 0)
		return access_add(args, e);
	if (strcmp(driver, "vagrant") != 0)
		return 0;
	if (environment(&access, e) < 0)
		return -1;
	return json_object_set_new(args, "access", access) < 0 ? err_oom(e) : 0;
}
