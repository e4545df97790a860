#include "store/oci/make.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/manifest.h"
#include "store/oci/disk.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"
#include "util/strv.h"
#include "util/system/io.h"

/* The image with the kernel and the initramfs that all VMs made of container images start with. */
#define KIT "container"

int oci_make_manifest(const struct store *st, const char *hex, json_t **ret, struct err *e)
{
	char source[SHA256_HEX + 1], text[128];
	struct sha256 sum;

	snprintf(text, sizeof(text), "container image %s %llu", hex,
		(unsigned long long)st->container_disk);
	sha256_start(&sum);
	sha256_add(&sum, text, strlen(text));
	sha256_end(&sum, source);
	return json_make(ret, e, "{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:s}", "format", 1,
		"description", "Container image", "arch", "x86_64", "os_type", "l26", "firmware",
		"any", "disk", "disk.qcow2", "disk_format", "qcow2", "cloud_init", 0, "source",
		source);
}

/* Names the files of the kit, and what its kernel is told, in the new manifest. */
static int add_kit(const json_t *kit, json_t *m, struct err *e)
{
	static const char *const members[] = {
		"kernel", "kernel_efi", "initrd", "cmdline", "min_ram_mb"};

	for (size_t i = 0; i < ARRAY_LEN(members); i++) {
		json_t *v = json_object_get(kit, members[i]);

		if (v && json_object_set(m, members[i], v) < 0)
			return err_oom(e);
	}
	return 0;
}

static int take_kit(
	struct store *st, const struct op *op, struct draft *d, json_t *m, struct err *e)
{
	auto_image struct image *built = NULL, *kit = NULL;
	auto_image_use struct image_use *use = NULL;
	auto_json json_t *its = NULL;

	if (store_build(st, op, KIT, false, &built, e) < 0 ||
		store_use(st, built->digest, &kit, &use, e) < 0 ||
		catalog_manifest(st, kit->digest, &its, e) < 0 || add_kit(its, m, e) < 0)
		return -1;
	return draft_take_files(d, kit->dir, m, e);
}

int oci_make(struct store *st, const struct op *op, struct draft *d, const struct oci_make *make,
	struct image **ret, struct err *e)
{
	json_t *container = NULL;

	if (oci_config_read(make->config, make->ref, make->hex, &container, e) < 0)
		return -1;
	if (json_object_set_new(make->m, "container", container) < 0)
		return err_oom(e);
	if (oci_disk(op, d, make->layers, make->n_layers, e) < 0 ||
		take_kit(st, op, d, make->m, e) < 0)
		return -1;
	return draft_commit(op, d, make->m, make->name, ret, e);
}

/* ---- of a directory ---- */

static int read_manifest(
	const char *dir, struct oci_manifest *ret, char ret_hex[SHA256_HEX + 1], struct err *e)
{
	auto_free char *path = NULL, *text = NULL;
	struct sha256 sum;
	size_t len;

	if (str_printf(&path, e, "%s/manifest.json", dir) < 0 ||
		file_read(path, OCI_TEXT_MAX, &text, &len, e) < 0 ||
		oci_manifest_read((struct bytes){(uint8_t *)text, len}, ret, e) < 0)
		return -1;
	if (ret->several)
		return err_set(e, ERR_INVALID, "it holds several images");
	sha256_start(&sum);
	sha256_add(&sum, text, len);
	sha256_end(&sum, ret_hex);
	return 0;
}

int oci_make_from_dir(struct store *st, const struct op *op, struct draft *d,
	const struct oci_make_dir *from, struct image **ret, struct err *e)
{
	auto_free struct oci_manifest *manifest = calloc(1, sizeof(*manifest));
	auto_free char *path = NULL, *config = NULL;
	auto_strv struct strv layers = {0};
	auto_json json_t *m = NULL;
	char hex[SHA256_HEX + 1];
	struct oci_make make = {.ref = from->ref, .hex = hex, .name = from->name};
	size_t len;
	int got;

	if (!manifest)
		return err_oom(e);
	if (read_manifest(from->dir, manifest, hex, e) < 0 || oci_make_manifest(st, hex, &m, e) < 0)
		return -1;
	if (from->source && json_object_set_new(m, "source", json_string(from->source)) < 0)
		return err_oom(e);
	got = from->rebuild ? 0 : draft_reuse(op, d, m, from->name, ret, e);
	if (got != 0)
		return got < 0 ? -1 : 0;
	if (str_printf(&path, e, "%s/%s", from->dir, manifest->config.hex) < 0 ||
		file_read(path, OCI_TEXT_MAX, &config, &len, e) < 0)
		return -1;
	for (unsigned i = 0; i < manifest->n_layers; i++)
		strv_addf(&layers, "%s/%s", from->dir, manifest->layers[i].hex);
	if (layers.n && strv_check(&layers, e) < 0)
		return -1;
	make.m = m;
	make.config = (struct bytes){(uint8_t *)config, len};
	make.layers = layers.v;
	make.n_layers = manifest->n_layers;
	return oci_make(st, op, d, &make, ret, e);
}
