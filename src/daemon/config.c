#include "daemon/config.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "spec/fields.h"
#include "spec/text.h"
#include "spec/yaml.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/json.h"
#include "util/str.h"

enum {
	CONFIG_MAX = 64 * 1024,
	KEEP_MAX_MB = 1 << 30,
	DISK_MAX_GB = 2000,
};

static int one_of(const char *what, const char *value, const struct choices *choices, struct err *e)
{
	char list[CHOICES_TEXT_MAX];

	if (choices_find(choices, value) >= 0)
		return 0;
	return err_set(e, ERR_INVALID, "%s: \"%s\" is not one of %s", what, value,
		choices_text(choices, list, sizeof(list)));
}

/* It may be written into files for programs that read words: it is one. */
static int check_url(const char *key, const char *url, struct err *e)
{
	if (!*url || ((str_starts(url, "http://") || str_starts(url, "https://")) &&
			     !url[strcspn(url, " \t\r\n[]#")]))
		return 0;
	return err_set(e, ERR_INVALID, "%s: must begin with http:// or https://", key);
}

static int read_members(json_t *j, struct config *c, struct err *e)
{
	static const char *const accels[] = {"auto", "kvm", "tcg"};
	static const char *const levels[] = {"debug", "info", "warn", "error"};
	static const char *const egresses[] = {"open", "deny"};
	const char *egress = "open";
	const char *accel = "auto", *qemu = "qemu-system-x86_64", *level = "info", *mirror = "",
		   *auth = "", *proxmox = "";
	double idle = 60, boot = 600, outage = 120;
	json_int_t keep = 512, templates = 20480, download = 102400, disk = 20, cache = 10240;

	if (json_get(j, "configuration", e,
		    "{s?s, s?s, s?s, s?F, s?F, s?F, s?I, s?I, s?I, s?s, s?I, s?I, s?s, s?s, s?s}",
		    "accelerator", &accel, "qemu", &qemu, "log_level", &level, "idle_exit", &idle,
		    "boot_timeout", &boot, "outage_timeout", &outage, "memory_keep_mb", &keep,
		    "templates_max_mb", &templates, "download_max_mb", &download, "image_mirror",
		    &mirror, "container_disk_gb", &disk, "container_cache_mb", &cache,
		    "registry_auth_file", &auth, "compose_egress", &egress, "proxmox_repository",
		    &proxmox) < 0)
		return -1;
	if (one_of("accelerator", accel, &(struct choices){accels, ARRAY_LEN(accels)}, e) < 0 ||
		one_of("log_level", level, &(struct choices){levels, ARRAY_LEN(levels)}, e) < 0 ||
		one_of("compose_egress", egress, &(struct choices){egresses, ARRAY_LEN(egresses)},
			e) < 0)
		return -1;
	if (idle < 0)
		return err_set(e, ERR_INVALID, "idle_exit: cannot be negative");
	if (boot <= 0)
		return err_set(e, ERR_INVALID, "boot_timeout: must be more than 0");
	if (outage < 0)
		return err_set(e, ERR_INVALID, "outage_timeout: cannot be negative");
	if (keep < 0 || keep > KEEP_MAX_MB)
		return err_set(e, ERR_INVALID, "memory_keep_mb: not between 0 and %d", KEEP_MAX_MB);
	if (templates < 0 || templates > KEEP_MAX_MB)
		return err_set(
			e, ERR_INVALID, "templates_max_mb: not between 0 and %d", KEEP_MAX_MB);
	if (download < 0 || download > KEEP_MAX_MB)
		return err_set(
			e, ERR_INVALID, "download_max_mb: not between 0 and %d", KEEP_MAX_MB);
	if (disk < 1 || disk > DISK_MAX_GB)
		return err_set(
			e, ERR_INVALID, "container_disk_gb: not between 1 and %d", DISK_MAX_GB);
	if (cache < 0 || cache > KEEP_MAX_MB)
		return err_set(
			e, ERR_INVALID, "container_cache_mb: not between 0 and %d", KEEP_MAX_MB);
	if (*auth && *auth != '/')
		return err_set(e, ERR_INVALID, "registry_auth_file: not an absolute path");
	if (check_url("image_mirror", mirror, e) < 0 ||
		check_url("proxmox_repository", proxmox, e) < 0)
		return -1;
	if (str_dup(mirror, &c->image_mirror, e) < 0 ||
		str_dup(proxmox, &c->proxmox_repository, e) < 0 ||
		str_dup(auth, &c->registry_auth_file, e) < 0 || str_dup(accel, &c->accel, e) < 0 ||
		str_dup(qemu, &c->qemu, e) < 0 || str_dup(level, &c->log_level, e) < 0 ||
		str_dup(egress, &c->compose_egress, e) < 0)
		return -1;
	c->idle_exit = idle;
	c->boot_timeout = boot;
	c->outage_timeout = outage;
	c->memory_keep_mb = (unsigned)keep;
	c->templates_max_mb = (unsigned)templates;
	c->download_max_mb = (unsigned)download;
	c->container_disk_gb = (unsigned)disk;
	c->container_cache_mb = (unsigned)cache;
	return 0;
}

/* Whether there is nothing but comments, which is as good as no file. */
static bool says_nothing(struct bytes text)
{
	bool comment = false;

	for (size_t i = 0; i < text.len; i++) {
		if (text.p[i] == '\n')
			comment = false;
		else if (text.p[i] == '#')
			comment = true;
		else if (!comment && !isspace(text.p[i]))
			return false;
	}
	return true;
}

int config_parse(struct bytes text, struct config *ret, struct err *e)
{
	auto_json json_t *j = NULL;
	struct config c = {0};

	if (!says_nothing(text) && spec_text_to_json(text, &j, e) < 0)
		return -1;
	if (!j || json_is_null(j)) {
		json_decref(j);
		j = json_object();
	}
	if (read_members(j, &c, e) < 0) {
		config_free(&c);
		return -1;
	}
	*ret = c;
	return 0;
}

int config_load(const char *path, struct config *ret, struct err *e)
{
	auto_free char *text = NULL;
	size_t len = 0;

	if (file_read(path, CONFIG_MAX, &text, &len, e) < 0 && e->sys != ENOENT)
		return -1;
	if (config_parse((struct bytes){(uint8_t *)text, len}, ret, e) < 0)
		return err_wrap(e, "%s", path);
	return 0;
}

int config_defaults(struct config *ret, struct err *e)
{
	return config_parse((struct bytes){0}, ret, e);
}

void config_free(struct config *c)
{
	free(c->accel);
	free(c->image_mirror);
	free(c->registry_auth_file);
	free(c->compose_egress);
	free(c->proxmox_repository);
	free(c->qemu);
	free(c->log_level);
	*c = (struct config){0};
}

json_t *config_to_json(const struct config *c)
{
	return json_pack(
		"{s:s, s:s, s:s, s:f, s:f, s:f, s:i, s:i, s:i, s:s, s:i, s:i, s:s, s:s, s:s}",
		"accelerator", c->accel, "qemu", c->qemu, "log_level", c->log_level, "idle_exit",
		c->idle_exit, "boot_timeout", c->boot_timeout, "outage_timeout", c->outage_timeout,
		"memory_keep_mb", (int)c->memory_keep_mb, "templates_max_mb",
		(int)c->templates_max_mb, "download_max_mb", (int)c->download_max_mb,
		"image_mirror", c->image_mirror, "container_disk_gb", (int)c->container_disk_gb,
		"container_cache_mb", (int)c->container_cache_mb, "registry_auth_file",
		c->registry_auth_file, "compose_egress", c->compose_egress, "proxmox_repository",
		c->proxmox_repository);
}
