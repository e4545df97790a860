/* What registries say of container images, and what skopeo says when it fails. */
#include "store/manifest.h"
#include "store/oci/describe.h"
#include "store/oci/tool.h"
#include "tap.h"
#include "util/json.h"
#include "util/str.h"

#define D64        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define BLOB(size) "{\"digest\":\"sha256:" D64 "\",\"size\":" #size "}"

static struct bytes text(const char *s)
{
	return (struct bytes){(const uint8_t *)s, strlen(s)};
}

static struct oci_manifest m;
static struct err e;

static int take(const char *s)
{
	e.msg[0] = 0;
	return oci_manifest_read(text(s), &m, &e);
}

static void test_manifests(void)
{
	tap_ok(take("{\"schemaVersion\":2,\"config\":" BLOB(2) ",\"layers\":[" BLOB(3) "," BLOB(
		       4) "]}") == 0,
		"of an image");
	tap_ok(!m.several && m.n_layers == 2 && m.size == 7 && m.config.size == 2, "its parts");
	tap_ok(take("{\"manifests\":[{\"digest\":\"x\",\"platform\":{\"os\":\"linux\","
		    "\"architecture\":\"arm64\"}},{\"digest\":\"sha256:" D64
		    "\",\"platform\":{\"os\":\"linux\",\"architecture\":\"amd64\"}}]}") == 0,
		"of several");
	tap_ok(m.several && strcmp(m.image, D64) == 0, "the one for us");
	tap_ok(take("{\"manifests\":[{\"platform\":{\"os\":\"linux\",\"architecture\":\"s390x\"}}]"
		    "}") < 0 &&
			strstr(e.msg, "only for: s390x"),
		"the others are named: %s", e.msg);
	tap_ok(take("{\"schemaVersion\":1,\"fsLayers\":[]}") < 0 && strstr(e.msg, "schema 1"),
		"of 2015: %s", e.msg);
	tap_ok(take("{}") < 0, "of nothing");
	tap_ok(take("[]") < 0, "no object");
	tap_ok(take("{\"config\":" BLOB(2) ",\"layers\":[{\"digest\":\"sha256:../../x\"}]}") < 0,
		"a digest that leads elsewhere");
	tap_ok(take("{\"config\":" BLOB(2) ",\"layers\":[" BLOB(-1) "]}") < 0, "a negative size");
	tap_ok(take("{\"config\":" BLOB(2) ",\"layers\":[{\"mediaType\":\"a+encrypted\","
					   "\"digest\":\"sha256:" D64 "\",\"size\":1}]}") < 0,
		"encrypted");
}

/* As text; "" if it is refused. */
static char *config(const char *s)
{
	auto_json json_t *c = NULL;
	char *out = NULL;

	if (oci_config_read(text(s), "docker.io/library/a:1", D64, &c, &e) < 0)
		return strdup("");
	return json_to_str(c, &out, &e) < 0 ? strdup("") : out;
}

static int refused(const char *s)
{
	char *got = config(s);
	int empty = !*got;

	free(got);
	return empty;
}

static void test_configs(void)
{
	char *empty = config("{}");
	char *full = config(
		"{\"os\":\"linux\",\"architecture\":\"amd64\",\"config\":{\"Entrypoint\":\"/a\","
		"\"Cmd\":[\"b\"],\"Env\":[\"A=1\",\"=x\",\"B\"],\"User\":\"u\",\"WorkingDir\":\"\","
		"\"Healthcheck\":{\"Test\":[\"CMD\",\"c\"],\"Timeout\":2500000000}}}");
	char *none = config("{\"config\":{\"Healthcheck\":{\"Test\":[\"NONE\"]}}}");

	tap_ok(strstr(empty, "\"entrypoint\":null") && strstr(empty, "\"env\":[]"), "empty: %s",
		empty);
	tap_ok(strstr(full, "\"entrypoint\":[\"/a\"]") && strstr(full, "\"env\":[\"A=1\"]") &&
			strstr(full, "\"working_dir\":null") && strstr(full, "\"timeout\":2.5"),
		"full: %s", full);
	tap_ok(strstr(none, "\"healthcheck\":null") != NULL, "no health check");
	free(empty);
	free(full);
	free(none);
	tap_ok(refused("{\"architecture\":\"arm64\"}") && strstr(e.msg, "linux/arm64"), "%s",
		e.msg);
	tap_ok(refused("{\"config\":{\"Cmd\":[1]}}"), "a command of numbers");
}

/* Each item is of three bytes or more: what is bounded is not what the text is, but what it means.
 */
static void test_large_configs(void)
{
	auto_buf struct buf many = {0}, large = {0};

	buf_puts(&many, "{\"config\":{\"Env\":[\"A=\"");
	for (int i = 0; i < 100000; i++)
		buf_putf(&many, ",\"%x=\"", i + 1);
	buf_put(&many, "]}}", 4);
	tap_ok(refused((const char *)buf_data(&many)) && e.kind == ERR_LIMIT, "%s", e.msg);
	buf_puts(&large, "{\"config\":{\"Cmd\":[\"");
	for (int i = 0; i < 600 * 1024; i++)
		buf_puts(&large, "a");
	buf_put(&large, "\"]}}", 5);
	tap_ok(refused((const char *)buf_data(&large)) && e.kind == ERR_LIMIT, "%s", e.msg);
}

static void test_failures(void)
{
	oci_tool_fail("skopeo",
		"time=\"x\" level=fatal msg=\"reading manifest \\\"a\\\": manifest unknown\"", &e);
	tap_ok(e.kind == ERR_NOT_FOUND && strstr(e.msg, "reading manifest \"a\""), "%s", e.msg);
	oci_tool_fail("skopeo", "msg=\"unauthorized: \033[1m\"", &e);
	tap_ok(e.kind == ERR_PERMISSION && !strchr(e.msg, '\033'), "%s", e.msg);
	oci_tool_fail("skopeo", "", &e);
	tap_ok(e.kind == ERR_BACKEND && strstr(e.msg, "without a word"), "%s", e.msg);
}

int main(void)
{
	test_manifests();
	test_configs();
	test_large_configs();
	test_failures();
	return tap_done();
}
