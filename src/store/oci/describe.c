#include "store/oci/describe.h"

#include <string.h>

#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"

/* VMs of this moat run programs of this kind. */
#define OUR_OS   "linux"
#define OUR_ARCH "amd64"

/* A kernel gives no more to a program, and the manifest of an image must have room for it. */
enum { ENV_MAX = 4096, MEMBER_MAX = 512 * 1024 };

static int read_digest(const json_t *from, char ret_hex[SHA256_HEX + 1], struct err *e)
{
	static const char kind[] = "sha256:";
	const char *text = json_string_value(json_object_get(from, "digest"));

	if (!text || !str_starts(text, kind) ||
		strspn(text + strlen(kind), "0123456789abcdef") != SHA256_HEX ||
		strlen(text) != strlen(kind) + SHA256_HEX)
		return err_set(e, ERR_INVALID, "its manifest has a digest that is no SHA-256");
	memcpy(ret_hex, text + strlen(kind), SHA256_HEX + 1);
	return 0;
}

static int read_blob(const json_t *from, struct oci_blob *ret, struct err *e)
{
	static const json_int_t size_max = (json_int_t)1 << 50;
	json_int_t size = json_integer_value(json_object_get(from, "size"));
	const char *type = json_string_value(json_object_get(from, "mediaType"));

	if (read_digest(from, ret->hex, e) < 0)
		return -1;
	if (!json_is_integer(json_object_get(from, "size")) || size < 0 || size > size_max)
		return err_set(e, ERR_INVALID, "its manifest names no size of a layer");
	if (type && strstr(type, "encrypted"))
		return err_set(e, ERR_UNSUPPORTED, "its layers are encrypted");
	ret->size = (uint64_t)size;
	return 0;
}

/* Chooses the manifest for our kind of machine. The message lists the others. */
static int choose(const json_t *manifests, struct oci_manifest *ret, struct err *e)
{
	const json_t *one;
	char others[256] = "", shown[64];
	size_t i;

	json_array_foreach((json_t *)manifests, i, one) {
		const json_t *platform = json_object_get(one, "platform");
		const char *os = json_string_value(json_object_get(platform, "os"));
		const char *arch = json_string_value(json_object_get(platform, "architecture"));
		size_t used = strlen(others);

		if (!os || !arch)
			continue;
		if (strcmp(os, OUR_OS) == 0 && strcmp(arch, OUR_ARCH) == 0) {
			ret->several = true;
			return read_digest(one, ret->image, e);
		}
		str_escape(arch, strlen(arch), shown, sizeof(shown));
		if (strcmp(os, OUR_OS) == 0 && used + strlen(shown) + 3 < sizeof(others))
			snprintf(others + used, sizeof(others) - used, "%s%s", used ? ", " : "",
				shown);
	}
	return err_set(e, ERR_UNSUPPORTED, "it is not for " OUR_OS "/" OUR_ARCH "%s%s",
		*others ? ", only for: " : "", others);
}

int oci_manifest_read(struct bytes text, struct oci_manifest *ret, struct err *e)
{
	auto_json json_t *j = NULL;
	struct oci_manifest m = {0};
	const json_t *layers, *config, *layer;
	size_t i;

	if (text.len > OCI_TEXT_MAX)
		return err_set(e, ERR_LIMIT, "its manifest has more than %d bytes", OCI_TEXT_MAX);
	if (json_parse_object(text, &j, e) < 0)
		return err_wrap(e, "its manifest");
	if (json_is_array(json_object_get(j, "manifests"))) {
		if (choose(json_object_get(j, "manifests"), &m, e) < 0)
			return -1;
		*ret = m;
		return 0;
	}
	layers = json_object_get(j, "layers");
	config = json_object_get(j, "config");
	if (json_integer_value(json_object_get(j, "schemaVersion")) == 1)
		return err_set(e, ERR_UNSUPPORTED,
			"its manifest has the format of 2015 (schema 1): push it anew");
	if (!json_is_array(layers) || !json_is_object(config))
		return err_set(e, ERR_INVALID, "its manifest is not that of a container image");
	if (json_array_size(layers) > OCI_LAYERS_MAX)
		return err_set(e, ERR_LIMIT, "it has more than %d layers", OCI_LAYERS_MAX);
	if (read_blob(config, &m.config, e) < 0)
		return -1;
	json_array_foreach((json_t *)layers, i, layer) {
		if (read_blob(layer, &m.layers[m.n_layers], e) < 0)
			return -1;
		m.size += m.layers[m.n_layers++].size;
	}
	*ret = m;
	return 0;
}

/* ---- the configuration ---- */

static int copy_texts(const json_t *from, json_t *to, struct err *e)
{
	const json_t *one;
	size_t i;

	json_array_foreach((json_t *)from, i, one) {
		if (!json_is_string(one))
			return err_set(e, ERR_INVALID, "its configuration has a list of no texts");
		if (json_array_append(to, (json_t *)one) < 0)
			return err_oom(e);
	}
	return 0;
}

/* A list of texts. Docker itself takes one text for a list with it. null: there is none. */
static int set_command(
	json_t *to, const char *name, const json_t *config, const char *member, struct err *e)
{
	const json_t *from = json_object_get(config, member);
	auto_json json_t *list = json_array();

	if (!list)
		return err_oom(e);
	if (json_is_string(from) && json_array_append(list, (json_t *)from) < 0)
		return err_oom(e);
	if (copy_texts(from, list, e) < 0)
		return -1;
	return json_object_set(to, name, json_array_size(list) ? list : json_null()) < 0
		       ? err_oom(e)
		       : 0;
}

/* The keys of an object, as a list. */
static int set_keys(
	json_t *to, const char *name, const json_t *config, const char *member, struct err *e)
{
	json_t *from = json_object_get(config, member), *value, *list = json_array();
	const char *key;

	if (!list || json_object_set_new(to, name, list) < 0)
		return err_oom(e);
	json_object_foreach(from, key, value)
		if (json_array_append_new(list, json_string(key)) < 0)
			return err_oom(e);
	return 0;
}

static int set_text(
	json_t *to, const char *name, const json_t *config, const char *member, struct err *e)
{
	json_t *from = json_object_get(config, member);
	bool there = json_is_string(from) && *json_string_value(from);

	return json_object_set(to, name, there ? from : json_null()) < 0 ? err_oom(e) : 0;
}

/* Leaves out what is no variable. */
static int set_env(json_t *to, const json_t *config, struct err *e)
{
	json_t *from = json_object_get(config, "Env"), *one, *list = json_array();
	size_t i;

	if (!list || json_object_set_new(to, "env", list) < 0)
		return err_oom(e);
	if (json_array_size(from) > ENV_MAX)
		return err_set(
			e, ERR_LIMIT, "its configuration has more than %d variables", ENV_MAX);
	json_array_foreach(from, i, one) {
		const char *text = json_string_value(one);

		if (text && *text != '=' && strchr(text, '=') && json_array_append(list, one) < 0)
			return err_oom(e);
	}
	return 0;
}

/* Nanoseconds as seconds; Docker's own default where there is none. */
static double seconds(const json_t *health, const char *member, double otherwise)
{
	double ns = json_number_value(json_object_get(health, member));

	return ns > 0 ? ns / 1e9 : otherwise;
}

/* Nothing is set where there is no test, or the test is "NONE": no health check. */
static int set_health(json_t *to, const json_t *config, struct err *e)
{
	const json_t *health = json_object_get(config, "Healthcheck");
	const json_t *test = json_object_get(health, "Test");
	const char *kind = json_string_value(json_array_get(test, 0));
	json_int_t retries = json_integer_value(json_object_get(health, "Retries"));
	auto_json json_t *list = json_array(), *made = NULL;

	if (!list)
		return err_oom(e);
	if (!kind || strcmp(kind, "NONE") == 0)
		return json_object_set(to, "healthcheck", json_null()) < 0 ? err_oom(e) : 0;
	if (copy_texts(test, list, e) < 0 ||
		json_make(&made, e, "{s:O, s:f, s:f, s:f, s:I}", "test", list, "interval",
			seconds(health, "Interval", 30), "timeout", seconds(health, "Timeout", 30),
			"start_period", seconds(health, "StartPeriod", 0), "retries",
			retries > 0 ? retries : (json_int_t)3) < 0)
		return -1;
	return json_object_set(to, "healthcheck", made) < 0 ? err_oom(e) : 0;
}

static int check_machine(const json_t *j, struct err *e)
{
	const char *os = json_string_value(json_object_get(j, "os"));
	const char *arch = json_string_value(json_object_get(j, "architecture"));
	char shown_os[32], shown_arch[32];

	if ((!os || !*os || strcmp(os, OUR_OS) == 0) &&
		(!arch || !*arch || strcmp(arch, OUR_ARCH) == 0))
		return 0;
	os = os ? os : OUR_OS;
	arch = arch ? arch : OUR_ARCH;
	str_escape(os, strlen(os), shown_os, sizeof(shown_os));
	str_escape(arch, strlen(arch), shown_arch, sizeof(shown_arch));
	return err_set(e, ERR_UNSUPPORTED, "it is for %s/%s, not for " OUR_OS "/" OUR_ARCH,
		shown_os, shown_arch);
}

int oci_config_read(
	struct bytes text, const char *ref, const char *hex, json_t **ret, struct err *e)
{
	auto_json json_t *j = NULL, *to = json_object();
	auto_free char *digest = NULL;
	const json_t *config;

	if (!to)
		return err_oom(e);
	if (text.len > OCI_TEXT_MAX)
		return err_set(
			e, ERR_LIMIT, "its configuration has more than %d bytes", OCI_TEXT_MAX);
	if (json_parse_object(text, &j, e) < 0)
		return err_wrap(e, "its configuration");
	if (check_machine(j, e) < 0 || str_printf(&digest, e, "sha256:%s", hex) < 0)
		return -1;
	config = json_object_get(j, "config");
	if (json_object_set_new(to, "ref", json_string(ref)) < 0 ||
		json_object_set_new(to, "digest", json_string(digest)) < 0)
		return err_oom(e);
	if (set_command(to, "entrypoint", config, "Entrypoint", e) < 0 ||
		set_command(to, "cmd", config, "Cmd", e) < 0 || set_env(to, config, e) < 0 ||
		set_text(to, "working_dir", config, "WorkingDir", e) < 0 ||
		set_text(to, "user", config, "User", e) < 0 || set_health(to, config, e) < 0 ||
		set_keys(to, "exposed_ports", config, "ExposedPorts", e) < 0 ||
		set_keys(to, "volumes", config, "Volumes", e) < 0 ||
		set_text(to, "stop_signal", config, "StopSignal", e) < 0)
		return -1;
	if (json_dumpb(to, NULL, 0, 0) > MEMBER_MAX)
		return err_set(e, ERR_LIMIT,
			"commands and variables of its configuration have more than %d KiB",
			MEMBER_MAX >> 10);
	*ret = take_ptr(&to);
	return 0;
}
