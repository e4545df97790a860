/*
 * A Dockerfile becomes an image. What goes into the build is first packed into the draft, so that
 * its checksum is that of what is built, whatever happens to the user's files meanwhile. With it an
 * image that was built before is found again.
 *
 * buildah keeps layers for the next build in DATA_DIR/images/container-builds. One build at a time
 * uses them. Where moat runs as an ordinary user, files in there belong to its subordinate ids.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/manifest.h"
#include "store/oci/builds.h"
#include "store/oci/make.h"
#include "store/oci/tool.h"
#include "store/recipe.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"
#include "util/system/io.h"
#include "util/system/proc.h"
#include "util/system/sha256-file.h"

#define FIXED_TIME "--mtime=@1700000000" /* a file that was only touched is the same */
enum {
	DOCKERFILE_MAX = 1 << 20,
	AUTH_MAX = 1 << 20,
	ARGS_MAX = 1000,
	BASE_MAX = 40,
	DIGITS = 12,
	FROM_MAX = 64
};

static void digest_text(struct sha256 *sum, const char *text)
{
	sha256_add(sum, text, strlen(text) + 1);
}

/* Writes WORK/build/FILE. */
static int put(const struct draft *d, const char *file, const void *p, size_t n, struct err *e)
{
	auto_free char *path = NULL;

	return str_printf(&path, e, "%s/build/%s", d->work, file) < 0
		       ? -1
		       : file_write_atomic(path, p, n, 0644, e);
}

/* ---- what goes into a build ---- */

static int dockerfile_path(const struct oci_build_req *req, char **ret, struct err *e)
{
	const char *file = req->file ? req->file : "Dockerfile";

	return *file == '/' ? str_dup(file, ret, e)
			    : str_printf(ret, e, "%s/%s", req->context, file);
}

/* Packs the context. The archive's bytes depend on nothing but names, modes and content. */
static int put_context(const struct op *op, const struct draft *d, const struct oci_build_req *req,
	struct sha256 *sum, struct err *e)
{
	auto_free char *tar = NULL;
	auto_strv struct strv argv = {0};
	struct proc_req proc = {.out_max = 64 * 1024, .guard = d->st->helper_path};
	char hex[SHA256_HEX + 1];
	auto_fd int fd = -1;

	op_progress(op, 0, 0, "packing %s", req->context);
	if (str_printf(&tar, e, "%s/build/context.tar", d->work) < 0)
		return -1;
	strv_add(&argv, "prlimit");
	strv_addf(&argv, "--fsize=%llu", (unsigned long long)d->st->container_disk);
	strv_add_all(&argv, "tar", "-c", "-f", tar, "--format=gnu", "--sort=name", FIXED_TIME,
		"--owner=0", "--group=0", "--numeric-owner", "-C", req->context, "--", ".", NULL);
	if (strv_check(&argv, e) < 0)
		return -1;
	proc.argv = (const char *const *)argv.v;
	if (proc_run_ok(op, &proc, e) < 0)
		return err_wrap(e, "the context");
	fd = open(tar, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fchmod(fd, 0644) < 0)
		return err_sys(e, errno, "%s", tar);
	if (sha256_file(op, fd, "reading the context", hex, e) < 0)
		return -1;
	digest_text(sum, hex);
	return 0;
}

static int put_args(const struct draft *d, const json_t *args, struct sha256 *sum, struct err *e)
{
	auto_buf struct buf text = {0};
	json_t *value;
	const char *key;

	if (args && !json_is_object(args))
		return err_set(e, ERR_INVALID, "args: not an object");
	if (json_object_size(args) > ARGS_MAX)
		return err_set(e, ERR_LIMIT, "args: more than %d", ARGS_MAX);
	json_object_foreach((json_t *)args, key, value) {
		const char *its = json_string_value(value);

		if (!its || !*key || strpbrk(key, "=\n") || strchr(its, '\n'))
			return err_set(e, ERR_INVALID,
				"args: names and texts, without a newline or a \"=\" in the name");
		buf_putf(&text, "%s=%s\n", key, its);
	}
	if (buf_check(&text, e) < 0)
		return -1;
	sha256_add(sum, buf_data(&text), text.len);
	digest_text(sum, "");
	return put(d, "args", buf_data(&text), text.len, e);
}

/* The registries of this machine that are named after "FROM". */
static int find_local(const char *dockerfile, struct strv *ret, struct err *e)
{
	unsigned n = 0;

	for (const char *line = dockerfile; line && n < FROM_MAX;) {
		char word[OCI_REF_MAX + 1];
		struct oci_ref ref;
		struct err ignored;
		const char *at = line + strspn(line, " \t");

		if (strncasecmp(at, "FROM ", 5) == 0) {
			at += 5;
			while (*(at += strspn(at, " \t")) == '-')
				at += strcspn(at, " \t\n");
			snprintf(word, sizeof(word), "%.*s", (int)strcspn(at, " \t\r\n"), at);
			if (oci_ref_read(word, &ref, &ignored) == 0 && oci_ref_is_local(&ref)) {
				strv_addf(ret, "%.*s", (int)ref.registry_len, ref.text);
				n++;
			}
		}
		line = strchr(line, '\n');
		line += line ? 1 : 0;
	}
	return ret->n ? strv_check(ret, e) : 0;
}

/* Copies the logins, which root of the user namespace could not read where they are. These are the
 * places where skopeo looks, too. */
static int put_auth(const struct draft *d, struct err *e)
{
	const char *given = getenv("REGISTRY_AUTH_FILE"), *run = getenv("XDG_RUNTIME_DIR"),
		   *home = getenv("HOME");
	auto_strv struct strv places = {0};

	if (*d->st->auth_file)
		strv_add(&places, d->st->auth_file);
	else if (given && *given)
		strv_add(&places, given);
	else if (run)
		strv_addf(&places, "%s/containers/auth.json", run);
	if (!places.n || (!*d->st->auth_file && !given && home)) {
		strv_addf(&places, "%s/.config/containers/auth.json", home ? home : "");
		strv_addf(&places, "%s/.docker/config.json", home ? home : "");
	}
	if (strv_check(&places, e) < 0)
		return -1;
	for (size_t i = 0; i < places.n; i++) {
		auto_free char *text = NULL;
		size_t len;

		if (!path_exists(places.v[i]))
			continue;
		/* The directory is closed to all but this build. */
		return file_read(places.v[i], AUTH_MAX, &text, &len, e) < 0 ||
				       put(d, "auth.json", text, len, e) < 0
			       ? -1
			       : 0;
	}
	return 0;
}

/* Writes all that the build gets; ret_hex: a digest of it. */
static int prepare(const struct op *op, const struct draft *d, const struct oci_build_req *req,
	char ret_hex[SHA256_HEX + 1], struct err *e)
{
	auto_free char *dir = NULL, *path = NULL, *text = NULL, *conf = NULL, *to = NULL;
	const char *target = req->target ? req->target : "";
	auto_strv struct strv local = {0};
	struct sha256 sum;
	size_t len;

	sha256_start(&sum);
	if (str_printf(&dir, e, "%s/build", d->work) < 0 || dir_make(dir, 0700, e) < 0 ||
		dockerfile_path(req, &path, e) < 0 ||
		file_read(path, DOCKERFILE_MAX, &text, &len, e) < 0)
		return -1;
	if (strspn(target, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") !=
		strlen(target))
		return err_set(e, ERR_INVALID, "target: no name of a stage");
	digest_text(&sum, "container build");
	digest_text(&sum, text);
	digest_text(&sum, target);
	sha256_add(&sum, &d->st->container_disk, sizeof(d->st->container_disk));
	if (put(d, "Dockerfile", text, len, e) < 0 ||
		put(d, "target", target, strlen(target), e) < 0 ||
		put_args(d, req->args, &sum, e) < 0 || put_context(op, d, req, &sum, e) < 0 ||
		find_local(text, &local, e) < 0 || oci_tool_prepare(d, local.v, e) < 0 ||
		str_printf(&conf, e, "%s/registries.conf", d->work) < 0 ||
		str_printf(&to, e, "%s/registries.conf", dir) < 0)
		return -1;
	if (rename(conf, to) < 0)
		return err_sys(e, errno, "%s", to);
	if (put_auth(d, e) < 0 || (req->rebuild && put(d, "anew", "", 0, e) < 0))
		return -1;
	sha256_end(&sum, ret_hex);
	return 0;
}

/* ---- the build ---- */

/* Runs share/recipes/container-build.sh, while nobody else uses what builds keep. */
static int run(const struct op *op, struct draft *d, const char *name, struct err *e)
{
	const struct store *st = d->st;
	const char *slash = strrchr(st->helper_path, '/');
	auto_free char *path = NULL, *log = NULL, *storage = NULL;
	auto_strv struct strv env = {0};
	struct recipe_run recipe = {.name = name};
	auto_fd int hold = -1;

	if (builds_take(st, op, &storage, &hold, e) < 0)
		return -1;
	strv_addf(&env, "MOAT_DISK_TOOL=%.*s/moat-disk", (int)(slash ? slash - st->helper_path : 0),
		st->helper_path);
	strv_addf(&env, "MOAT_BUILD_STORAGE=%s", storage);
	strv_addf(&env, "MOAT_BUILD_KEEP_MB=%llu", (unsigned long long)(st->container_cache >> 20));
	if (strv_check(&env, e) < 0 || dir_make(st->cache, 0700, e) < 0 ||
		str_printf(&path, e, "%s/container-build.sh", st->recipes) < 0 ||
		catalog_log_path(st, name, &log, e) < 0)
		return -1;
	recipe.path = path;
	recipe.log = log;
	recipe.env = (const char *const *)env.v;
	return recipe_run(op, d, &recipe, e);
}

static int build_claimed(struct store *st, const struct op *op, const struct oci_build_req *req,
	const char *name, struct image **ret, struct err *e)
{
	auto_draft struct draft *d = NULL;
	auto_free char *image = NULL;
	auto_json json_t *m = NULL;
	char hex[SHA256_HEX + 1];
	int got;

	if (draft_new(st, &d, e) < 0 || prepare(op, d, req, hex, e) < 0 ||
		oci_make_manifest(st, hex, &m, e) < 0 ||
		json_object_set_new(m, "source", json_string(hex)) < 0 ||
		str_printf(&image, e, "%s/build/image", d->work) < 0)
		return -1;
	got = req->rebuild ? 0 : draft_reuse(op, d, m, name, ret, e);
	if (got != 0)
		return got < 0 ? -1 : 0;
	if (run(op, d, name, e) < 0)
		return -1;
	return oci_make_from_dir(st, op, d,
		&(struct oci_make_dir){
			.dir = image, .ref = name, .name = name, .rebuild = true, .source = hex},
		ret, e);
}

/* "built-lab-0f1e2d3c4b5a": the digits are of all that tells one build from another. */
static int name_build(const struct oci_build_req *req, char **ret, struct err *e)
{
	auto_free char *args = NULL;
	char hex[SHA256_HEX + 1];
	const char *base = strrchr(req->context, '/');
	struct sha256 sum;

	args = json_object_size(req->args) ? json_dumps(req->args, JSON_COMPACT | JSON_SORT_KEYS)
					   : NULL;
	sha256_start(&sum);
	digest_text(&sum, req->context);
	digest_text(&sum, req->file ? req->file : "Dockerfile");
	digest_text(&sum, req->target ? req->target : "");
	digest_text(&sum, args ? args : "");
	sha256_end(&sum, hex);
	if (str_printf(ret, e, "built-%.*s-%.*s", BASE_MAX, base && base[1] ? base + 1 : "image",
		    DIGITS, hex) < 0)
		return -1;
	for (char *c = *ret; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
			*c = '-';
	return 0;
}

int store_oci_build(struct store *st, const struct op *op, const struct oci_build_req *req,
	struct image **ret, struct err *e)
{
	auto_free char *made = NULL;
	const char *name = req->name;
	struct stat sb;
	int claim = -1, rc;

	if (req->context[0] != '/')
		return err_set(e, ERR_INVALID, "context: not absolute");
	if (stat(req->context, &sb) < 0)
		return err_sys(e, errno, "%s", req->context);
	if (!S_ISDIR(sb.st_mode))
		return err_set(e, ERR_INVALID, "%s is not a directory", req->context);
	if (!name && name_build(req, &made, e) < 0)
		return -1;
	name = name ? name : made;
	if (check_image_name(name, e) < 0 || catalog_claim_name(st, op, name, &claim, e) < 0)
		return -1;
	rc = build_claimed(st, op, req, name, ret, e);
	catalog_release_name(st, name, claim);
	return rc < 0 ? err_wrap(e, "building %s", req->context) : 0;
}
