/*
 * A container image of a registry. What it is, its manifest says: the same manifest is the same
 * image, whatever the name. Layers that an earlier image had are not downloaded again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/manifest.h"
#include "store/oci/blobs.h"
#include "store/oci/make.h"
#include "store/oci/tool.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"
#include "util/system/io.h"

#define LAYOUT "layout" /* in WORK; skopeo writes it */
#define BLOBS  LAYOUT "/blobs/sha256"

/* An image as the registry describes it. */
struct found {
	struct oci_manifest manifest;
	char hex[SHA256_HEX + 1]; /* of the manifest */
	char *exact; /* the image by that digest: "docker.io/library/debian@sha256:..." */
};

static void found_free(struct found **f)
{
	if (*f)
		free((*f)->exact);
	free(*f);
}
#define auto_found __attribute__((cleanup(found_free)))

static void hash_text(const struct buf *text, char ret_hex[SHA256_HEX + 1])
{
	struct sha256 sum;

	sha256_start(&sum);
	sha256_add(&sum, buf_data(text), text->len);
	sha256_end(&sum, ret_hex);
}

/* Has skopeo print a manifest, or the configuration, as the registry has it. */
static int ask(const struct op *op, const struct draft *d, const char *ref, bool config,
	struct buf *ret, struct err *e)
{
	auto_strv struct strv argv = {0};

	oci_skopeo(d, &argv, "inspect");
	strv_add_all(&argv, "--raw", "--retry-times", "2", NULL);
	if (config)
		strv_add(&argv, "--config");
	if (*d->st->auth_file)
		strv_add_all(&argv, "--authfile", d->st->auth_file, NULL);
	strv_addf(&argv, "docker://%s", ref);
	return oci_tool_ask(op, d, &argv, ret, e);
}

static int ask_manifest(
	const struct op *op, const struct draft *d, const char *ref, struct found *f, struct err *e)
{
	auto_buf struct buf text = {0};

	if (ask(op, d, ref, false, &text, e) < 0 ||
		oci_manifest_read(buf_bytes(&text), &f->manifest, e) < 0)
		return -1;
	hash_text(&text, f->hex);
	return 0;
}

static int name_exactly(const struct oci_ref *ref, const char *hex, char **ret, struct err *e)
{
	return str_printf(ret, e, "%.*s@sha256:%s", (int)ref->name_len, ref->text, hex);
}

/* Finds the manifest for our kind of machine. */
static int look_up(const struct op *op, const struct draft *d, const struct oci_ref *ref,
	struct found *f, struct err *e)
{
	static const char altered[] = "the registry sent another manifest than was asked for";
	auto_free char *one = NULL;
	char hex[SHA256_HEX + 1];

	op_progress(op, 0, 0, "asking %.*s for %s", (int)ref->registry_len, ref->text, ref->text);
	if (ask_manifest(op, d, ref->text, f, e) < 0)
		return -1;
	if (ref->pinned && strcmp(f->hex, oci_ref_digest(ref)) != 0)
		return err_set(e, ERR_INVALID, "%s", altered);
	if (f->manifest.several) {
		memcpy(hex, f->manifest.image, sizeof(hex));
		if (name_exactly(ref, hex, &one, e) < 0 || ask_manifest(op, d, one, f, e) < 0)
			return -1;
		if (strcmp(f->hex, hex) != 0 || f->manifest.several)
			return err_set(e, ERR_INVALID, "%s", altered);
	}
	if (d->st->download_max && f->manifest.size > d->st->download_max)
		return err_set(e, ERR_LIMIT,
			"its layers have %llu MiB (download_max_mb in the configuration)",
			(unsigned long long)(f->manifest.size >> 20));
	if (f->manifest.size > d->st->container_disk)
		return err_set(e, ERR_LIMIT,
			"its layers have %llu MiB, more than a disk of %llu GiB holds "
			"(container_disk_gb in the configuration)",
			(unsigned long long)(f->manifest.size >> 20),
			(unsigned long long)(d->st->container_disk >> 30));
	return name_exactly(ref, f->hex, &f->exact, e);
}

/* ---- layers ---- */

static int blob_path(const struct draft *d, const char *hex, char **ret, struct err *e)
{
	return str_printf(ret, e, "%s/" BLOBS "/%s", d->work, hex);
}

/* Puts the layers that are here to where skopeo looks for them. *ret_all: none is missing. */
static int lend_layers(const struct op *op, const struct draft *d, const struct oci_manifest *m,
	bool *ret_all, struct err *e)
{
	bool all = true;

	for (unsigned i = 0; i < m->n_layers; i++) {
		auto_free char *path = NULL;
		int got;

		if (blob_path(d, m->layers[i].hex, &path, e) < 0)
			return -1;
		if (path_exists(path)) /* the same layer twice */
			continue;
		got = blobs_lend(d->st, op, m->layers[i].hex, path, e);
		if (got < 0)
			return -1;
		all &= got == 1;
	}
	*ret_all = all;
	return 0;
}

static int download(const struct op *op, const struct draft *d, const struct found *f,
	const char *shown, struct err *e)
{
	auto_free char *layout = NULL, *blobs = NULL, *text = NULL;
	auto_strv struct strv argv = {0};
	struct oci_tool_watch watch = {.total = f->manifest.size};

	if (str_printf(&layout, e, "%s/" LAYOUT, d->work) < 0 ||
		str_printf(&blobs, e, "%s/" BLOBS, d->work) < 0 ||
		str_printf(&text, e, "downloading %s", shown) < 0)
		return -1;
	oci_skopeo(d, &argv, "copy");
	strv_add_all(&argv, "--quiet", "--retry-times", "3",
		"--dest-oci-accept-uncompressed-layers", NULL);
	if (*d->st->auth_file)
		strv_add_all(&argv, "--src-authfile", d->st->auth_file, NULL);
	strv_addf(&argv, "docker://%s", f->exact);
	strv_addf(&argv, "oci:%s:image", layout);
	watch.dirs[0] = layout;
	watch.dirs[1] = blobs;
	watch.text = text;
	return oci_tool_watch(op, d, &argv, &watch, e);
}

/* Gets all layers; their paths go to *ret. */
static int get_layers(const struct op *op, const struct draft *d, const struct found *f,
	const char *shown, struct strv *ret, struct err *e)
{
	const struct oci_manifest *m = &f->manifest;
	auto_free char *blobs = NULL;
	bool all;

	if (str_printf(&blobs, e, "%s/" BLOBS, d->work) < 0 || dir_make(blobs, 0700, e) < 0 ||
		lend_layers(op, d, m, &all, e) < 0 || (!all && download(op, d, f, shown, e) < 0))
		return -1;
	for (unsigned i = 0; i < m->n_layers; i++) {
		strv_addf(ret, "%s/%s", blobs, m->layers[i].hex);
		if (strv_check(ret, e) < 0)
			return -1;
		if (!path_exists(ret->v[i]))
			return err_set(e, ERR_BACKEND, "skopeo did not download a layer");
		blobs_keep(d->st, m->layers[i].hex, ret->v[i]);
	}
	return 0;
}

/* The configuration: as the registry has it, for what moat needs of it is lost where it is put into
 * the OCI's form. */
static int get_config(const struct op *op, const struct draft *d, const struct found *f,
	struct buf *ret, struct err *e)
{
	char hex[SHA256_HEX + 1];

	if (ask(op, d, f->exact, true, ret, e) < 0)
		return -1;
	hash_text(ret, hex);
	if (strcmp(hex, f->manifest.config.hex) != 0)
		return err_set(e, ERR_INVALID, "the registry sent another configuration");
	return 0;
}

/* ---- the image ---- */

/* Makes an image whose name the caller has claimed. */
static int pull_claimed(struct store *st, const struct op *op, const struct oci_pull_req *req,
	const struct oci_ref *ref, const char *name, struct image **ret, struct err *e)
{
	auto_found struct found *f = calloc(1, sizeof(*f));
	auto_draft struct draft *d = NULL;
	auto_buf struct buf config = {0};
	auto_strv struct strv layers = {0};
	auto_free char *host = NULL;
	auto_json json_t *m = NULL;
	char *local[] = {NULL, NULL};
	struct oci_make make = {.ref = ref->text, .name = name};
	int got;

	if (!f)
		return err_oom(e);
	if (str_printf(&host, e, "%.*s", (int)ref->registry_len, ref->text) < 0 ||
		draft_new(st, &d, e) < 0)
		return -1;
	local[0] = oci_ref_is_local(ref) ? host : NULL;
	if (oci_tool_prepare(d, local, e) < 0 || look_up(op, d, ref, f, e) < 0 ||
		oci_make_manifest(st, f->hex, &m, e) < 0)
		return -1;
	got = req->rebuild ? 0 : draft_reuse(op, d, m, name, ret, e);
	if (got != 0)
		return got < 0 ? -1 : 0;
	if (get_config(op, d, f, &config, e) < 0 || get_layers(op, d, f, ref->text, &layers, e) < 0)
		return -1;
	make.m = m;
	make.hex = f->hex;
	make.config = buf_bytes(&config);
	make.layers = layers.v;
	make.n_layers = f->manifest.n_layers;
	if (oci_make(st, op, d, &make, ret, e) < 0)
		return -1;
	blobs_trim(st, st->container_cache);
	return 0;
}

/* Returns 1 and the image if it is there and nobody needs to be asked for a newer one: what a
 * digest names never changes. */
static int find_here(struct store *st, const struct oci_pull_req *req, const struct oci_ref *ref,
	const char *name, struct image **ret, struct err *e)
{
	struct err why;

	if (req->rebuild || (!req->missing && (!ref->pinned || req->name)))
		return 0;
	if (store_find(st, name, ret, &why) == 0)
		return 1;
	if (why.kind == ERR_NOT_FOUND)
		return 0;
	*e = why;
	return -1;
}

bool store_oci_is_meant(const char *text)
{
	return oci_ref_is_meant(text);
}

int store_oci_pull(struct store *st, const struct op *op, const struct oci_pull_req *req,
	struct image **ret, struct err *e)
{
	struct oci_ref ref;
	const char *name;
	int claim = -1, got;

	if (oci_ref_read(req->ref, &ref, e) < 0 ||
		(req->name && check_image_name(req->name, e) < 0))
		return -1;
	name = req->name ? req->name : ref.text;
	got = find_here(st, req, &ref, name, ret, e);
	if (got != 0)
		return got < 0 ? -1 : 0;
	if (catalog_claim_name(st, op, name, &claim, e) < 0)
		return -1;
	got = find_here(st, req, &ref, name, ret, e); /* somebody else may have made it meanwhile */
	if (got == 0)
		got = pull_claimed(st, op, req, &ref, name, ret, e);
	catalog_release_name(st, name, claim);
	return got < 0 ? err_wrap(e, "getting %s", ref.text) : 0;
}
