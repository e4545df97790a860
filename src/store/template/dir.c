#include "store/template/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/hold.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/json.h"
#include "util/system/log.h"
#include "util/str.h"

enum { MANIFEST_MAX = 64 * 1024, PREFIX_MIN = 4 };

json_t *template_sum_json(uint64_t sum)
{
	char text[24];

	snprintf(text, sizeof(text), "%016" PRIx64, sum);
	return json_string(text);
}

uint64_t template_sum_value(const json_t *j)
{
	const char *text = json_string_value(j);

	return text && strlen(text) == 16 ? strtoull(text, NULL, 16) : 0;
}

static bool is_key(const char *name)
{
	return strlen(name) == SHA256_HEX && strspn(name, "0123456789abcdef") == SHA256_HEX;
}

int template_manifest_read(const char *dir, json_t **ret, struct err *e)
{
	auto_free char *path = NULL, *text = NULL;
	size_t len;

	if (str_printf(&path, e, "%s/manifest.json", dir) < 0 ||
		file_read(path, MANIFEST_MAX, &text, &len, e) < 0)
		return -1;
	if (json_parse_object((struct bytes){(uint8_t *)text, len}, ret, e) < 0)
		return err_wrap(e, "%s", path);
	return 0;
}

bool template_dir_has_format(const struct template_root *r, const char *key, int format)
{
	auto_free char *dir = NULL;
	auto_json json_t *manifest = NULL;
	struct err ignored;

	if (str_printf(&dir, &ignored, "%s/%s", r->dir, key) < 0 ||
		template_manifest_read(dir, &manifest, &ignored) < 0)
		return true;
	return json_integer_value(json_object_get(manifest, "version")) == format;
}

int template_dir_hold(
	const struct template_root *r, const char *key, char **ret_dir, int *ret_fd, struct err *e)
{
	auto_free char *dir = NULL;
	enum hold got;

	if (str_printf(&dir, e, "%s/%s", r->dir, key) < 0)
		return -1;
	got = hold_dir(dir, HOLD_SHARED, ret_fd, e);
	if (got == HOLD_FAILED)
		return -1;
	if (got != HOLD_OK) /* it is gone, or is being removed */
		return 0;
	*ret_dir = take_ptr(&dir);
	return 1;
}

int template_dir_claim(const struct template_root *r, const char *key, int *ret_fd, struct err *e)
{
	auto_free char *busy = NULL, *path = NULL;
	enum hold got;

	if (str_printf(&busy, e, "%s/busy", r->dir) < 0 || dir_make(busy, 0700, e) < 0 ||
		str_printf(&path, e, "%s/%s", busy, key) < 0)
		return -1;
	got = hold_file(path, HOLD_ALONE, ret_fd, e);
	return got == HOLD_FAILED ? -1 : got == HOLD_OK;
}

int template_dir_draft(const struct template_root *r, char **ret_dir, int *ret_fd, struct err *e)
{
	auto_free char *dir = NULL;
	enum hold got;

	if (dir_make(r->dir, 0700, e) < 0 || str_printf(&dir, e, "%s/tmp-XXXXXX", r->dir) < 0)
		return -1;
	if (!mkdtemp(dir))
		return err_sys(e, errno, "%s", dir);
	got = hold_dir(dir, HOLD_ALONE, ret_fd, e);
	if (got != HOLD_OK) /* a sweep was faster: between mkdtemp and hold_dir it had no owner */
		return got == HOLD_FAILED ? -1 : err_set(e, ERR_BUSY, "%s was taken away", dir);
	*ret_dir = take_ptr(&dir);
	return 0;
}

static int64_t used_at(const char *dir)
{
	auto_free char *path = NULL;
	struct err ignored;
	struct stat st;

	if (str_printf(&path, &ignored, "%s/used", dir) < 0 || stat(path, &st) < 0)
		return 0;
	return st.st_mtime;
}

void template_dir_touch(const char *dir)
{
	auto_free char *path = NULL;
	auto_fd int fd = -1;
	struct err ignored;

	if (str_printf(&path, &ignored, "%s/used", dir) < 0)
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0)
		futimens(fd, NULL);
}

static int list_one(const struct template_root *r, const char *key, json_t *list, struct err *e)
{
	auto_free char *dir = NULL;
	auto_json json_t *manifest = NULL;
	struct err ignored;
	json_t *one;

	if (str_printf(&dir, e, "%s/%s", r->dir, key) < 0)
		return -1;
	/* A template without a manifest is listed, too, so that users can remove it. */
	if (template_manifest_read(dir, &manifest, &ignored) < 0)
		manifest = json_object();
	one = json_deep_copy(json_object_get(manifest, "about"));
	if (!one)
		one = json_object();
	json_object_set_new(one, "key", json_string(key));
	json_object_set_new(one, "size", json_integer((json_int_t)dir_bytes(dir)));
	json_object_set_new(one, "used", json_integer((json_int_t)used_at(dir)));
	return json_array_append_new(list, one) < 0 ? err_oom(e) : 0;
}

int template_dir_list(const struct template_root *r, json_t **ret, struct err *e)
{
	auto_json json_t *list = json_array();
	auto_dir DIR *d = opendir(r->dir);
	struct dirent *ent;

	while (d && (ent = readdir(d)))
		if (is_key(ent->d_name) && list_one(r, ent->d_name, list, e) < 0)
			return -1;
	*ret = json_incref(list);
	return 0;
}

int template_dir_resolve(const struct template_root *r, const char *prefix,
	char ret_key[SHA256_HEX + 1], struct err *e)
{
	auto_dir DIR *d = opendir(r->dir);
	unsigned found = 0;
	struct dirent *ent;

	while (d && strlen(prefix) >= PREFIX_MIN && (ent = readdir(d)))
		if (is_key(ent->d_name) && str_starts(ent->d_name, prefix)) {
			memcpy(ret_key, ent->d_name, SHA256_HEX + 1);
			found++;
		}
	if (found > 1)
		return err_set(e, ERR_INVALID, "several templates begin with %.64s", prefix);
	if (!found)
		return err_set(e, ERR_NOT_FOUND,
			"no template %.64s; see what there is: moat image templates", prefix);
	return 0;
}

/* Renames the directory first, so that nobody finds half of a template. */
static int delete_dir(const struct template_root *r, const char *dir, struct err *e)
{
	auto_free char *dead = NULL;

	if (str_printf(&dead, e, "%s/dead-%s", r->dir, strrchr(dir, '/') + 1) < 0)
		return -1;
	if (dir_remove(dead, e) < 0)
		return -1;
	if (rename(dir, dead) < 0)
		return errno == ENOENT ? 0 : err_sys(e, errno, "%s", dir);
	return dir_remove(dead, e);
}

int template_dir_remove(
	const struct template_root *r, const char *key, uint64_t *ret_freed, struct err *e)
{
	auto_free char *dir = NULL;
	auto_fd int fd = -1;
	uint64_t bytes;
	enum hold got;

	if (str_printf(&dir, e, "%s/%s", r->dir, key) < 0)
		return -1;
	got = hold_dir(dir, HOLD_ALONE, &fd, e);
	if (got == HOLD_FAILED)
		return -1;
	if (got == HOLD_BUSY)
		return err_set(e, ERR_BUSY, "VMs run from template %.12s", key);
	if (got == HOLD_GONE)
		return err_set(e, ERR_NOT_FOUND, "no template %.12s", key);
	bytes = dir_bytes(dir);
	if (delete_dir(r, dir, e) < 0)
		return -1;
	if (ret_freed)
		*ret_freed = bytes;
	return 0;
}

/* The place in the list of the template whose last use is longest ago, leaving out the newest; the
 * list's size if there is none. */
static size_t find_oldest(json_t *list, const char *newest)
{
	size_t oldest = json_array_size(list), i;
	json_int_t used = 0;
	json_t *one;

	json_array_foreach(list, i, one) {
		json_int_t at = json_integer_value(json_object_get(one, "used"));

		if (strcmp(json_string_value(json_object_get(one, "key")), newest) == 0)
			continue;
		if (oldest == json_array_size(list) || at < used) {
			used = at;
			oldest = i;
		}
	}
	return oldest;
}

static int make_room(const struct template_root *r, const char *newest, struct err *e)
{
	auto_json json_t *list = NULL;
	uint64_t sum = 0, freed;
	json_t *one;
	size_t i;

	if (template_dir_list(r, &list, e) < 0)
		return -1;
	json_array_foreach(list, i, one)
		sum += (uint64_t)json_integer_value(json_object_get(one, "size"));
	while (sum > r->disk_max && (i = find_oldest(list, newest)) < json_array_size(list)) {
		const char *key =
			json_string_value(json_object_get(json_array_get(list, i), "key"));
		struct err in_use;

		if (template_dir_remove(r, key, &freed, &in_use) == 0)
			sum -= freed < sum ? freed : sum;
		json_array_remove(list, i);
	}
	return 0;
}

int template_dir_publish(const struct template_root *r, const char *draft, const char *key,
	const json_t *manifest, struct err *e)
{
	auto_free char *path = NULL, *text = NULL, *dir = NULL;
	struct err ignored;

	if (str_printf(&path, e, "%s/manifest.json", draft) < 0 ||
		str_printf(&dir, e, "%s/%s", r->dir, key) < 0 ||
		json_to_str(manifest, &text, e) < 0)
		return -1;
	if (file_write_atomic(path, text, strlen(text), 0600, e) < 0)
		return -1;
	template_dir_touch(draft);
	if (rename(draft, dir) < 0)
		return err_sys(e, errno, "%s", dir);
	if (make_room(r, key, &ignored) < 0)
		log_err(NULL, LOG_WARN, &ignored, "templates take more than their share");
	return 0;
}

int template_dir_sweep(const struct template_root *r, struct err *e)
{
	auto_dir DIR *d = opendir(r->dir);
	struct dirent *ent;

	while (d && (ent = readdir(d))) {
		auto_free char *dir = NULL;
		auto_fd int fd = -1;

		if (!str_starts(ent->d_name, "tmp-") && !str_starts(ent->d_name, "dead-"))
			continue;
		if (str_printf(&dir, e, "%s/%s", r->dir, ent->d_name) < 0)
			return -1;
		if (str_starts(ent->d_name, "tmp-") && hold_dir(dir, HOLD_ALONE, &fd, e) != HOLD_OK)
			continue;
		if (dir_remove(dir, e) < 0)
			return -1;
	}
	return 0;
}
