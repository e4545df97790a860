#include "store/manifest.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"

enum { TEXT_MAX = 4096, NAME_LEN_MAX = 64, RAM_MB_MAX = 1 << 22 };

static const char *const file_members[MANIFEST_FILES_MAX] = {
	"kernel", "kernel_efi", "initrd", "disk"};

/* Whether s has only letters, digits and "._-" and begins with a letter or digit: safe as a file
 * name. */
static bool plain_word(const char *s, size_t max)
{
	if (!isalnum((unsigned char)s[0]) || strlen(s) > max)
		return false;
	for (; *s; s++)
		if (!isalnum((unsigned char)*s) && !strchr("._-", *s))
			return false;
	return true;
}

int check_image_name(const char *name, struct err *e)
{
	char shown[128];

	if (name && plain_word(name, NAME_LEN_MAX))
		return 0;
	str_escape(name ? name : "", name ? strlen(name) : 0, shown, sizeof(shown));
	return err_set(e, ERR_INVALID,
		"\"%s\" cannot be the name of an image: letters, digits, \".\", \"_\", \"-\", at "
		"most %d",
		shown, NAME_LEN_MAX);
}

int check_os_type(const char *os_type, struct err *e)
{
	if (os_type && plain_word(os_type, 32))
		return 0;
	return err_set(e, ERR_INVALID, "os_type: not a word such as \"l26\" or \"win11\"");
}

int check_firmware(const char *firmware, struct err *e)
{
	if (!firmware || strcmp(firmware, "any") == 0 || strcmp(firmware, "bios") == 0 ||
		strcmp(firmware, "uefi") == 0)
		return 0;
	return err_set(e, ERR_INVALID, "firmware: not \"any\", \"bios\" or \"uefi\"");
}

int check_user(const char *user, struct err *e)
{
	if (!user || (plain_word(*user == '_' ? user + 1 : user, NAME_LEN_MAX)))
		return 0;
	return err_set(e, ERR_INVALID, "user: not a user name");
}

static bool printable(const char *s)
{
	if (strlen(s) > TEXT_MAX)
		return false;
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return false;
	return true;
}

static int check_files(const json_t *m, struct err *e)
{
	for (unsigned i = 0; i < MANIFEST_FILES_MAX; i++) {
		const char *name = json_string_value(json_object_get(m, file_members[i]));

		if (name && (!plain_word(name, NAME_LEN_MAX) || strcmp(name, "lock") == 0 ||
				    strcmp(name, "manifest.json") == 0))
			return err_set(
				e, ERR_INVALID, "%s: not a plain file name", file_members[i]);
	}
	if (!json_object_get(m, "kernel") && !json_object_get(m, "disk"))
		return err_set(e, ERR_INVALID, "neither kernel nor disk");
	if (!json_object_get(m, "kernel") &&
		(json_object_get(m, "initrd") || json_object_get(m, "cmdline")))
		return err_set(e, ERR_INVALID, "initrd or cmdline without kernel");
	return 0;
}

static int check_disk_format(const json_t *m, struct err *e)
{
	const char *format = json_string_value(json_object_get(m, "disk_format"));

	if (!json_object_get(m, "disk") && format)
		return err_set(e, ERR_INVALID, "disk_format without disk");
	if (json_object_get(m, "disk") &&
		(!format || (strcmp(format, "qcow2") != 0 && strcmp(format, "raw") != 0)))
		return err_set(e, ERR_INVALID, "disk_format: not \"qcow2\" or \"raw\"");
	return 0;
}

/* It becomes the content of files in the guest. */
static int check_hostname(const char *name, struct err *e)
{
	if (!name || (plain_word(name, 63) && !strchr(name, '_') && !strchr(name, '.')))
		return 0;
	return err_set(e, ERR_INVALID, "hostname: not letters, digits and hyphens");
}

static bool is_hex(const char *s, size_t len)
{
	return strlen(s) == len && strspn(s, "0123456789abcdef") == len;
}

/* Checks the members that the store itself added. */
static int check_own(json_t *m, struct err *e)
{
	const char *digest = json_string_value(json_object_get(m, "digest")), *file;
	const char *source = json_string_value(json_object_get(m, "source"));
	json_t *files = json_object_get(m, "files"), *hex;

	if (digest && !is_hex(digest, SHA256_HEX))
		return err_set(e, ERR_INVALID, "digest: not 64 hex digits");
	if (source && !is_hex(source, SHA256_HEX))
		return err_set(e, ERR_INVALID, "source: not 64 hex digits");
	json_object_foreach(files, file, hex)
		if (!json_is_string(hex) || !is_hex(json_string_value(hex), SHA256_HEX))
			return err_set(e, ERR_INVALID, "files: not 64 hex digits");
	return 0;
}

/* Copies one member if it is present and not null; fails if its type is wrong. */
static int copy_member(
	const json_t *from, json_t *to, const char *name, json_type type, struct err *e)
{
	json_t *v = json_object_get(from, name);

	if (!v || json_is_null(v))
		return 0;
	if ((type == JSON_TRUE ? !json_is_boolean(v) : json_typeof(v) != type) ||
		(type == JSON_STRING && !printable(json_string_value(v))))
		return err_set(e, ERR_INVALID, "%s: wrong type or unprintable", name);
	if (type == JSON_INTEGER && json_integer_value(v) < 0)
		return err_set(e, ERR_INVALID, "%s: negative", name);
	return json_object_set(to, name, v) < 0 ? err_oom(e) : 0;
}

static int set_default(json_t *m, const char *name, json_t *value, struct err *e)
{
	if (json_object_get(m, name)) {
		json_decref(value);
		return 0;
	}
	return json_object_set_new(m, name, value) < 0 ? err_oom(e) : 0;
}

static int copy_known(const json_t *in, json_t *m, struct err *e)
{
	static const struct {
		const char *name;
		json_type type;
	} known[] = {
		{"format", JSON_INTEGER},
		{"description", JSON_STRING},
		{"arch", JSON_STRING},
		{"os_type", JSON_STRING},
		{"kernel", JSON_STRING},
		{"kernel_efi", JSON_STRING},
		{"initrd", JSON_STRING},
		{"cmdline", JSON_STRING},
		{"disk", JSON_STRING},
		{"disk_format", JSON_STRING},
		{"user", JSON_STRING},
		{"hostname", JSON_STRING},
		{"firmware", JSON_STRING},
		{"min_ram_mb", JSON_INTEGER},
		{"cloud_init", JSON_TRUE}, /* or false */
		{"used", JSON_TRUE},       /* likewise */
		{"source", JSON_STRING},
		{"files", JSON_OBJECT},
		{"container", JSON_OBJECT},
		{"digest", JSON_STRING},
		{"created", JSON_INTEGER},
		{"size", JSON_INTEGER},
	};

	for (unsigned i = 0; i < ARRAY_LEN(known); i++)
		if (copy_member(in, m, known[i].name, known[i].type, e) < 0)
			return -1;
	return set_default(m, "description", json_string(""), e) < 0 ||
			       set_default(m, "os_type", json_string("l26"), e) < 0 ||
			       set_default(m, "firmware", json_string("any"), e) < 0 ||
			       set_default(m, "min_ram_mb", json_integer(0), e) < 0
		       ? -1
		       : 0;
}

/* ---- what a container image says of itself ---- */

enum { LIST_MAX = 4096 };

enum shape { TEXT, TEXT_OR_NULL, TEXTS, TEXTS_OR_NULL, HEALTH };

static const struct {
	const char *name;
	enum shape shape;
} container_members[] = {
	{"ref", TEXT},
	{"digest", TEXT},
	{"entrypoint", TEXTS_OR_NULL},
	{"cmd", TEXTS_OR_NULL},
	{"env", TEXTS},
	{"working_dir", TEXT_OR_NULL},
	{"user", TEXT_OR_NULL},
	{"healthcheck", HEALTH},
	{"exposed_ports", TEXTS},
	{"volumes", TEXTS},
	{"stop_signal", TEXT_OR_NULL},
};

static bool is_texts(const json_t *list)
{
	const json_t *one;
	size_t i;

	if (!json_is_array(list) || json_array_size(list) > LIST_MAX)
		return false;
	json_array_foreach((json_t *)list, i, one)
		if (!json_is_string(one))
			return false;
	return true;
}

static bool is_health(const json_t *h)
{
	static const char *const numbers[] = {"interval", "timeout", "start_period", "retries"};
	const json_t *test = json_object_get(h, "test");

	if (json_object_size(h) != 1 + ARRAY_LEN(numbers) || !is_texts(test) ||
		json_array_size(test) == 0)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		const json_t *number = json_object_get(h, numbers[i]);

		if (!json_is_number(number) || json_number_value(number) < 0)
			return false;
	}
	return true;
}

static bool has_shape(const json_t *v, enum shape shape)
{
	switch (shape) {
	case TEXT:
		return json_is_string(v);
	case TEXT_OR_NULL:
		return json_is_string(v) || json_is_null(v);
	case TEXTS:
		return is_texts(v);
	case TEXTS_OR_NULL:
		return is_texts(v) || json_is_null(v);
	case HEALTH:
		return json_is_null(v) || is_health(v);
	}
	return false;
}

/* Checks the member "container": all of its members, and that there are no others. */
static int check_container(const json_t *c, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(container_members); i++)
		if (!has_shape(json_object_get(c, container_members[i].name),
			    container_members[i].shape))
			return err_set(e, ERR_INVALID, "container.%s: missing or of a wrong type",
				container_members[i].name);
	if (json_object_size(c) != ARRAY_LEN(container_members))
		return err_set(e, ERR_INVALID, "container: it has members that moat does not know");
	return 0;
}

/* ---- the whole ---- */

int manifest_parse(struct bytes in, json_t **ret, struct err *e)
{
	auto_json json_t *j = NULL, *m = json_object();
	const char *arch;

	if (!m)
		return err_oom(e);
	if (in.len > MANIFEST_SIZE_MAX)
		return err_set(e, ERR_INVALID, "larger than %d bytes", MANIFEST_SIZE_MAX);
	if (json_parse_object(in, &j, e) < 0 || copy_known(j, m, e) < 0)
		return -1;
	if (json_integer_value(json_object_get(m, "format")) != 1)
		return err_set(e, ERR_INVALID, "format: only 1 is known");
	arch = json_string_value(json_object_get(m, "arch"));
	if (!arch || !plain_word(arch, 32))
		return err_set(e, ERR_INVALID, "arch: not a word such as \"x86_64\"");
	if (json_integer_value(json_object_get(m, "min_ram_mb")) > RAM_MB_MAX)
		return err_set(e, ERR_INVALID, "min_ram_mb: more than %d", RAM_MB_MAX);
	if (json_object_get(m, "container") &&
		check_container(json_object_get(m, "container"), e) < 0)
		return -1;
	if (check_files(m, e) < 0 || check_disk_format(m, e) < 0 || check_own(m, e) < 0 ||
		check_os_type(json_string_value(json_object_get(m, "os_type")), e) < 0 ||
		check_firmware(json_string_value(json_object_get(m, "firmware")), e) < 0 ||
		check_user(json_string_value(json_object_get(m, "user")), e) < 0 ||
		check_hostname(json_string_value(json_object_get(m, "hostname")), e) < 0)
		return -1;
	*ret = take_ptr(&m);
	return 0;
}

unsigned manifest_files(const json_t *m, const char *ret[MANIFEST_FILES_MAX])
{
	unsigned n = 0;

	for (unsigned i = 0; i < MANIFEST_FILES_MAX; i++) {
		const char *name = json_string_value(json_object_get(m, file_members[i]));
		bool known = false;

		for (unsigned k = 0; name && k < n; k++)
			known |= strcmp(ret[k], name) == 0;
		if (name && !known)
			ret[n++] = name;
	}
	return n;
}

int manifest_digest(const json_t *m, char ret_hex[SHA256_HEX + 1], struct err *e)
{
	auto_json json_t *content = json_copy((json_t *)m);
	auto_free char *text = NULL;
	struct sha256 s;

	if (!content)
		return err_oom(e);
	json_object_del(content, "digest");
	json_object_del(content, "created");
	json_object_del(content, "size");
	text = json_dumps(content, JSON_COMPACT | JSON_SORT_KEYS);
	if (!text)
		return err_oom(e);
	sha256_start(&s);
	sha256_add(&s, text, strlen(text));
	sha256_end(&s, ret_hex);
	return 0;
}

void image_free(struct image *img)
{
	if (!img)
		return;
	free(img->name);
	free(img->digest);
	free(img->description);
	free(img->dir);
	free(img->kernel);
	free(img->initrd);
	free(img->cmdline);
	free(img->kernel_efi);
	free(img->disk);
	free(img->disk_format);
	free(img->user);
	free(img->hostname);
	free(img->password);
	free(img->os_type);
	free(img->arch);
	free(img->firmware);
	json_decref(img->container);
	free(img);
}

void image_list_free(struct image_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		image_free(list->items[i]);
	free(list->items);
	*list = (struct image_list){0};
}

static int copy_text(const json_t *m, const char *member, char **ret, struct err *e)
{
	const char *s = json_string_value(json_object_get(m, member));

	return s ? str_dup(s, ret, e) : 0;
}

static int copy_path(
	const json_t *m, const char *member, const char *dir, char **ret, struct err *e)
{
	const char *s = json_string_value(json_object_get(m, member));

	return s ? str_printf(ret, e, "%s/%s", dir, s) : 0;
}

static enum knowledge read_knowledge(const json_t *v)
{
	return json_is_true(v) ? KNOWN_YES : json_is_false(v) ? KNOWN_NO : UNKNOWN;
}

int manifest_to_image(
	const json_t *m, const char *dir, const char *name, struct image **ret, struct err *e)
{
	auto_image struct image *img = calloc(1, sizeof(*img));

	if (!img)
		return err_oom(e);
	if (str_dup(name, &img->name, e) < 0 || str_dup(dir, &img->dir, e) < 0 ||
		copy_text(m, "digest", &img->digest, e) < 0 ||
		copy_text(m, "description", &img->description, e) < 0 ||
		copy_path(m, "kernel", dir, &img->kernel, e) < 0 ||
		copy_path(m, "kernel_efi", dir, &img->kernel_efi, e) < 0 ||
		copy_path(m, "initrd", dir, &img->initrd, e) < 0 ||
		copy_text(m, "cmdline", &img->cmdline, e) < 0 ||
		copy_path(m, "disk", dir, &img->disk, e) < 0 ||
		copy_text(m, "disk_format", &img->disk_format, e) < 0 ||
		copy_text(m, "user", &img->user, e) < 0 ||
		copy_text(m, "hostname", &img->hostname, e) < 0 ||
		copy_text(m, "os_type", &img->os_type, e) < 0 ||
		copy_text(m, "arch", &img->arch, e) < 0 ||
		copy_text(m, "firmware", &img->firmware, e) < 0)
		return -1;
	if (!img->digest)
		return err_set(e, ERR_INVALID, "no digest");
	img->container = json_incref(json_object_get(m, "container"));
	img->cloud_init = read_knowledge(json_object_get(m, "cloud_init"));
	img->used = json_is_true(json_object_get(m, "used"));
	img->min_ram_mb = (uint64_t)json_integer_value(json_object_get(m, "min_ram_mb"));
	img->size = (uint64_t)json_integer_value(json_object_get(m, "size"));
	img->created = json_integer_value(json_object_get(m, "created"));
	*ret = take_ptr(&img);
	return 0;
}
