#include "store/make/vendor.h"

#include <errno.h>
#include <string.h>

#include "store/import/download.h"
#include "util/auto.h"
#include "util/str.h"
#include "util/system/io.h"
#include "util/system/proc.h"

enum { LIST_MAX = 1 << 20, KEY_MAX = 1 << 20 };

static int get(const struct store *st, const struct op *op, const char *host, const char *dir,
	const char *file, struct buf *ret, struct err *e)
{
	auto_free char *url = NULL;

	if (cloud_url(st->mirror, host, dir, file, &url, e) < 0)
		return -1;
	return download_small(op, url, LIST_MAX, ret, e);
}

int vendor_own_key(const struct store *st, const char *vendor, struct buf *ret, struct err *e)
{
	auto_free char *path = NULL, *text = NULL;
	size_t len;

	if (str_printf(&path, e, "%s/keys/%s.asc", st->own_recipes, vendor) < 0)
		return -1;
	if (file_read(path, KEY_MAX, &text, &len, e) < 0)
		return e->sys == ENOENT ? 0 : -1;
	return buf_add(ret, text, len, e) < 0 ? -1 : 1;
}

static int vendors_key(const struct store *st, const struct op *op, const struct cloud_vendor *v,
	struct buf *ret, struct err *e)
{
	auto_free char *path = NULL, *text = NULL;
	size_t len;

	if (v->key_path)
		return get(st, op, v->key_host, v->key_path, "", ret, e);
	if (str_printf(&path, e, "%s/keys/%s.asc", st->recipes, v->name) < 0 ||
		file_read(path, KEY_MAX, &text, &len, e) < 0)
		return -1;
	return buf_add(ret, text, len, e);
}

static int put(const char *dir, const char *name, const struct buf *b, char **ret, struct err *e)
{
	auto_free char *path = NULL;

	if (str_printf(&path, e, "%s/%s", dir, name) < 0 ||
		file_write_atomic(path, buf_data(b), b->len, 0600, e) < 0)
		return -1;
	*ret = take_ptr(&path);
	return 0;
}

/* A key that was downloaded is not trusted for that: its fingerprint must be the one we know. */
static int check_signature(const struct store *st, const struct op *op,
	const struct cloud_image *image, const struct buf *list, const char *scratch, struct err *e)
{
	const struct cloud_vendor *v = image->vendor;
	auto_buf struct buf key = {0}, plain = {0}, signature = {0};
	auto_free char *key_path = NULL, *list_path = NULL, *signature_path = NULL;
	auto_proc_result struct proc_result res = {0};
	int own = vendor_own_key(st, v->name, &key, e);

	if (own < 0 || (!own && vendors_key(st, op, v, &key, e) < 0) ||
		sums_unarmour(buf_bytes(&key), &plain, e) < 0)
		return err_wrap(e, "the key of %s", v->name);
	if (get(st, op, v->host, image->dir, v->signature, &signature, e) < 0 ||
		put(scratch, "key.gpg", &plain, &key_path, e) < 0 ||
		put(scratch, "sums", list, &list_path, e) < 0 ||
		put(scratch, "sums.gpg", &signature, &signature_path, e) < 0)
		return -1;
	const char *argv[] = {
		"gpgv", "--status-fd", "1", "--keyring", key_path, signature_path, list_path, NULL};
	struct proc_req req = {
		.argv = argv, .out_max = 64 * 1024, .guard = st->helper_path, .cwd = scratch};

	if (proc_run(op, &req, &res, e) < 0)
		return -1;
	if (res.exit_code || (!own && !sums_signed_by(buf_bytes(&res.out), v->fingerprint)))
		return err_set(e, ERR_INVALID,
			"the list of checksums has no good signature of %s: it was altered, or "
			"signed by a new key (images.md says what to do)",
			v->name);
	return 0;
}

int vendor_sum(const struct store *st, const struct op *op, const struct cloud_image *image,
	const char *scratch, char ret_hex[SUM_HEX_MAX + 1], struct err *e)
{
	const struct cloud_vendor *v = image->vendor;
	auto_buf struct buf list = {0};

	op_progress(op, 0, 0, "asking for the checksum of %s", image->name);
	if (get(st, op, v->host, image->dir, v->sums, &list, e) < 0)
		return -1;
	if (v->signature && check_signature(st, op, image, &list, scratch, e) < 0)
		return -1;
	return sums_find(buf_bytes(&list), image->file,
		v->kind == CLOUD_SHA256 ? SHA256_HEX : SUM_HEX_MAX, ret_hex, e);
}
