/* fuzz-containers.c - names of container images, and what registries say of them: the first byte
 * chooses the parser. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/manifest.h"
#include "store/oci/describe.h"
#include "store/oci/tool.h"
#include "store/ref.h"
#include "util/auto.h"
#include "util/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool leads_elsewhere(const char *path)
{
	for (const char *part = path; part; part = strchr(part, '/')) {
		part += strspn(part, "/");
		if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || !part[2]))
			return true;
	}
	return path[0] == '/';
}

/* What was read is read again as the same, and is no path that leads elsewhere. */
static void try_ref(const char *text)
{
	struct oci_ref ref, again;
	struct err e;

	if (oci_ref_read(text, &ref, &e) < 0)
		return;
	if (oci_ref_read(ref.text, &again, &e) < 0 || strcmp(ref.text, again.text) != 0 ||
		leads_elsewhere(ref.text) || strchr(ref.text, '%'))
		abort();
}

static void try_manifest(struct bytes in)
{
	static struct oci_manifest m;
	struct err e;

	if (oci_manifest_read(in, &m, &e) < 0)
		return;
	for (unsigned i = 0; i < m.n_layers; i++)
		if (strspn(m.layers[i].hex, "0123456789abcdef") != SHA256_HEX)
			abort();
}

/* A manifest takes whatever a configuration was turned into. */
static void try_config(struct bytes in)
{
	auto_json json_t *c = NULL, *m = NULL, *parsed = NULL;
	auto_free char *text = NULL;
	struct err e;

	if (oci_config_read(in, "a", "b", &c, &e) < 0)
		return;
	m = json_pack("{s:i, s:s, s:s, s:s, s:O}", "format", 1, "arch", "x86_64", "disk", "d",
		"disk_format", "raw", "container", c);
	if (!m || json_to_str(m, &text, &e) < 0)
		return;
	if (manifest_parse((struct bytes){(const uint8_t *)text, strlen(text)}, &parsed, &e) < 0 &&
		strlen(text) < MANIFEST_SIZE_MAX && in.len < 4096)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_free char *text = NULL;
	struct bytes in;
	struct err e;

	if (size == 0)
		return 0;
	in = (struct bytes){data + 1, size - 1};
	text = strndup((const char *)in.p, in.len);
	if (!text)
		return 0;
	switch (data[0] % 4) {
	case 0:
		try_ref(text);
		break;
	case 1:
		try_manifest(in);
		break;
	case 2:
		try_config(in);
		break;
	default:
		oci_tool_fail("skopeo", text, &e);
	}
	return 0;
}
