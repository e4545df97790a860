/*
 * A Proxmox VE server as an image. The vendor's documentation says how one is installed on Debian:
 * its repository and its key, names that resolve, its packages. That is done here as change.c does
 * it for any image, without booting. share/recipes/proxmox has what is set afterwards, and what a
 * server does by itself when it starts.
 */
#include "store/make/install-proxmox.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/draft.h"
#include "store/make/change.h"
#include "store/make/fetch.h"
#include "store/make/vendor.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"
#include "util/system/io.h"

#define KEY_IN_IMAGE "/usr/share/keyrings/moat-proxmox.gpg"
#define ADDRESS      "10.10.10.1" /* of the bridge: share/recipes/proxmox/files/interfaces */

enum { DISK_GB = 32, MIN_RAM_MB = 1024, PASSWORD_BYTES = 10, KEY_MAX = 1 << 20 };

/* The vendor's manual installs these; the last is what its networks need for DHCP. */
static const char *const packages[] = {
	"proxmox-ve", "postfix", "open-iscsi", "chrony", "dnsmasq", NULL};

/* Writes what apt checks the repository with: the key that the user has put beside his recipes, or
 * the vendor's. */
static int put_key(const struct store *st, const struct op *op, const struct proxmox_release *r,
	const char *path, struct err *e)
{
	auto_buf struct buf key = {0}, plain = {0};
	auto_free char *url = NULL, *file = NULL, *text = NULL;
	auto_fd int fd = -1;
	size_t len;
	int own = vendor_own_key(st, "proxmox", &key, e);

	if (own < 0)
		return -1;
	if (!own) {
		struct fetch_req req = {.text = "downloading the key of the packages",
			.digits = (unsigned)strlen(r->key_sum),
			.sum = r->key_sum};

		if (str_printf(&url, e, "%s%s", proxmox_keys, r->key) < 0)
			return -1;
		req.url = url;
		if (fetch_file(st, op, &req, &file, &fd, e) < 0 ||
			file_read(file, KEY_MAX, &text, &len, e) < 0 ||
			buf_add(&key, text, len, e) < 0)
			return err_wrap(e, "the key of Proxmox VE's packages");
		unlink(file);
	}
	if (sums_unarmour(buf_bytes(&key), &plain, e) < 0)
		return err_wrap(e, "the key of Proxmox VE's packages");
	return file_write_atomic(path, buf_data(&plain), plain.len, 0644, e);
}

static int put(const char *dir, const char *file, mode_t mode, const char *text, struct err *e)
{
	auto_free char *path = NULL;

	if (str_printf(&path, e, "%s/%s", dir, file) < 0)
		return -1;
	return file_write_atomic(path, text, strlen(text), mode, e);
}

/* Writes the files that differ by release and by build, for /etc. */
static int put_files(const struct store *st, const struct proxmox_release *r, const char *etc,
	const char *password, struct err *e)
{
	static const char *const dirs[] = {"", "/moat-proxmox", "/apt", "/apt/sources.list.d"};
	const char *repository =
		*st->proxmox_repository ? st->proxmox_repository : proxmox_repository;
	auto_free char *hosts = NULL, *sources = NULL;

	for (unsigned i = 0; i < ARRAY_LEN(dirs); i++) {
		auto_free char *dir = NULL;

		if (str_printf(&dir, e, "%s%s", etc, dirs[i]) < 0 || dir_make(dir, 0755, e) < 0)
			return -1;
		/* The image's own directories get its mode, and our umask is narrow. */
		if (chmod(dir, 0755) < 0)
			return err_sys(e, errno, "%s", dir);
	}
	/* A node's name must lead to an address of its own. */
	if (str_printf(&hosts, e,
		    "127.0.0.1 localhost\n" ADDRESS " %s.localdomain %s\n"
		    "::1 localhost ip6-localhost ip6-loopback\n",
		    r->name, r->name) < 0 ||
		str_printf(&sources, e,
			"deb [arch=amd64 signed-by=" KEY_IN_IMAGE "] %s %s pve-no-subscription\n",
			repository, r->suite) < 0)
		return -1;
	return put(etc, "moat-proxmox/password", 0600, password, e) < 0 ||
			       put(etc, "hostname", 0644, r->name, e) < 0 ||
			       put(etc, "hosts", 0644, hosts, e) < 0 ||
			       put(etc, "apt/sources.list.d/proxmox.list", 0644, sources, e) < 0
		       ? -1
		       : 0;
}

/* Changes the base, with the files in a scratch directory. */
static int build(struct store *st, const struct op *op, const struct proxmox_release *r,
	const char *scratch, struct image **ret, struct err *e)
{
	auto_image struct image *base = NULL;
	auto_image_use struct image_use *use = NULL;
	auto_json json_t *members = NULL;
	auto_free char *etc = NULL, *key = NULL, *files = NULL, *script = NULL, *mode = NULL;
	char password[2 * PASSWORD_BYTES + 1];

	if (str_random_hex(PASSWORD_BYTES, password, e) < 0 ||
		str_printf(&etc, e, "%s/etc", scratch) < 0 ||
		str_printf(&key, e, "%s/key.gpg", scratch) < 0 ||
		str_printf(&mode, e, "%s/proxmox_install_mode", scratch) < 0 ||
		str_printf(&files, e, "%s/proxmox/files", st->recipes) < 0 ||
		str_printf(&script, e, "%s/proxmox/setup.sh", st->recipes) < 0 ||
		put_files(st, r, etc, password, e) < 0 || put_key(st, op, r, key, e) < 0 ||
		file_write_atomic(mode, "", 0, 0644, e) < 0 ||
		json_make(&members, e, "{s:s, s:s, s:i}", "description", r->description, "hostname",
			r->name, "min_ram_mb", MIN_RAM_MB) < 0)
		return -1;
	/* The packages leave alone what cannot be done before a server runs, if that file is there.
	 * The vendor's installer makes it, too; setup.sh removes it. */
	const char *copy[] = {etc, "/", key, KEY_IN_IMAGE, files, "/usr/share/moat-proxmox", mode,
		"/proxmox_install_mode", NULL};
	const char *scripts[] = {script, NULL};
	struct change_req req = {.base = r->base,
		.name = r->name,
		.copy = copy,
		.packages = packages,
		.scripts = scripts,
		.disk_gb = DISK_GB,
		.rebuild = true};

	if (change_use_base(st, op, r->base, &base, &use, e) < 0 ||
		change_claimed(st, op, &req, base, members, ret, e) < 0)
		return -1;
	return str_dup(password, &(*ret)->password, e);
}

int install_proxmox(struct store *st, const struct op *op, const struct proxmox_release *release,
	struct image **ret, struct err *e)
{
	auto_draft struct draft *scratch = NULL; /* deleted with the password, whatever happens */

	if (draft_new(st, &scratch, e) < 0)
		return -1;
	return build(st, op, release, scratch->work, ret, e);
}
