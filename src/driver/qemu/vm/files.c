/*
 * How it works: what runs from memory gets one more archive behind its initramfs. Disks get their
 * files from a small VM of the image "tiny", which has the disk and no network: so no file system
 * that was made to do harm is read by this host, and any that Linux knows can be written.
 */
#include "driver/qemu/vm/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "driver/qemu/vm/container.h"
#include "store/disk/cpio.h"
#include "util/auto.h"
#include "util/str.h"
#include "util/system/io.h"
#include "wire/base64.h"
#include "wire/wire.h"

enum {
	TOTAL_MAX = 64 << 20, /* of a VM's files together */
	INITRD_MAX = 512 << 20,
	HELPER_RAM_MB = 256,
	PUT_SECONDS = 300,
	SAID_MAX = 400,
	INBOX_SPARE = 4096,
};
#define ARCHIVE "/run/moat-files"

extern const char qemu_script_put_files[]; /* put-files.sh */

/* ---- the archive ---- */

static int load(const struct file_spec *f, size_t room, struct buf *ret, struct err *e)
{
	auto_fd int fd = -1;

	if (f->content)
		return buf_add_str(ret, f->content, e);
	if (f->content_base64)
		return base64_decode(f->content_base64, strlen(f->content_base64), ret)
			       ? 0
			       : err_set(e, ERR_INVALID, "content_base64 is not proper base64");
	fd = open(f->host_file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return err_sys(e, errno, "%s", f->host_file);
	if (file_read_all(fd, room, ret, e) < 0)
		return err_wrap(e, "%s", f->host_file);
	return 0;
}

/* Calls each() for each file, with its content. */
static int walk(const struct vm_spec *spec,
	int (*each)(void *arg, const struct file_spec *f, struct bytes content, struct err *e),
	void *arg, struct err *e)
{
	size_t room = TOTAL_MAX;

	for (size_t i = 0; i < spec->n_files; i++) {
		auto_buf struct buf content = {0};

		if (load(&spec->files[i], room, &content, e) < 0)
			return err_wrap(e, "files[%zu]", i);
		if (content.len > room)
			return err_set(
				e, ERR_LIMIT, "files: more than %d MiB together", TOTAL_MAX >> 20);
		room -= content.len;
		if (each(arg, &spec->files[i], buf_bytes(&content), e) < 0)
			return -1;
	}
	return 0;
}

static int add_to_sum(void *arg, const struct file_spec *f, struct bytes content, struct err *e)
{
	(void)e;
	sha256_add(arg, f->path, strlen(f->path) + 1);
	sha256_add(arg, f->mode, strlen(f->mode) + 1);
	sha256_add(arg, f->owner, strlen(f->owner) + 1);
	sha256_add(arg, &content.len, sizeof(content.len));
	sha256_add(arg, content.p, content.len);
	return 0;
}

int qemu_files_sum(const struct vm_spec *spec, char ret[SHA256_HEX + 1], struct err *e)
{
	struct sha256 s;

	sha256_start(&s);
	if (walk(spec, add_to_sum, &s, e) < 0)
		return -1;
	sha256_end(&s, ret);
	return 0;
}

struct packer {
	struct buf archive;
	uint32_t inode, now;
	bool dirs;          /* directories are entries, too, but for those that there are */
	struct bytes there; /* the archives that come before */
	struct sha256 sum;
};

/* The directories above a path, unless the system has them already: it would get other rights for
 * them. */
static int add_dirs(struct packer *p, const char *path, struct err *e)
{
	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		auto_free char *dir = NULL;

		if (str_printf(&dir, e, "%.*s", (int)(slash - path), path) < 0)
			return -1;
		if (cpio_has(p->there, dir) || cpio_has(buf_bytes(&p->archive), dir))
			continue;
		cpio_put(&p->archive, &(struct cpio_entry){.path = dir,
					      .mode = S_IFDIR | 0755,
					      .mtime = p->now,
					      .inode = ++p->inode});
	}
	return 0;
}

static int add_file(void *arg, const struct file_spec *f, struct bytes content, struct err *e)
{
	struct packer *p = arg;

	if (add_to_sum(&p->sum, f, content, e) < 0 || (p->dirs && add_dirs(p, f->path + 1, e) < 0))
		return -1;
	cpio_put(&p->archive, &(struct cpio_entry){.path = f->path + 1,
				      .mode = S_IFREG | (uint32_t)strtoul(f->mode, NULL, 8),
				      .uid = (uint32_t)strtoul(f->owner, NULL, 10),
				      .gid = (uint32_t)strtoul(strchr(f->owner, ':') + 1, NULL, 10),
				      .mtime = p->now,
				      .inode = ++p->inode,
				      .content = content});
	return buf_check(&p->archive, e);
}

/* The files were read before, for a template's key: what it promises must be in the template. */
static int pack(const struct qemu_vm *vm, struct packer *p, struct err *e)
{
	char sum[SHA256_HEX + 1];

	p->now = (uint32_t)time(NULL);
	sha256_start(&p->sum);
	if (walk(vm->spec, add_file, p, e) < 0)
		return -1;
	cpio_end(&p->archive);
	sha256_end(&p->sum, sum);
	if (vm->files_sum && strcmp(vm->files_sum, sum) != 0)
		return err_set(e, ERR_BACKEND, "files: a host_file changes while it is read");
	return buf_check(&p->archive, e);
}

/* ---- an initramfs ---- */

static bool has_own_initrd(const struct qemu_vm *vm)
{
	return vm->image->container ? !vm->template : vm->spec->n_files && !vm->image->disk;
}

int qemu_files_initrd_path(const struct qemu_vm *vm, char **ret, struct err *e)
{
	if (has_own_initrd(vm))
		return str_printf(ret, e, "%s/%s.initrd", vm->dir, vm->spec->name);
	if (vm->image->container)
		return str_printf(ret, e, "%s/" TEMPLATE_INITRD, vm->template->dir);
	return str_dup(vm->image->initrd, ret, e);
}

int qemu_files_initrd(const struct qemu_vm *vm, struct err *e)
{
	auto_buf struct buf whole = {0};
	struct packer p = {.dirs = true};
	auto_free char *path = NULL, *base = NULL;
	size_t len;
	int rc;

	if (!has_own_initrd(vm))
		return 0;
	if (str_printf(&path, e, "%s/%s.initrd", vm->dir, vm->spec->name) < 0 ||
		file_read(vm->image->initrd, INITRD_MAX, &base, &len, e) < 0)
		return -1;
	p.there = (struct bytes){(uint8_t *)base, len};
	rc = vm->image->container ? qemu_container_programs(vm, &p.archive, e) : pack(vm, &p, e);
	buf_put(&whole, base, len);
	buf_put(&whole, (char[4]){0}, (4 - len % 4) % 4);
	buf_put(&whole, buf_data(&p.archive), p.archive.len);
	buf_free(&p.archive);
	/* QEMU opens it once more, and may be another user. The directory is closed to others. */
	return rc < 0 || buf_check(&whole, e) < 0
		       ? -1
		       : file_write_atomic(path, buf_data(&whole), whole.len, 0444, e);
}

/* ---- a container's init ---- */

int qemu_files_pack(const struct qemu_vm *vm, struct buf *ret, struct err *e)
{
	struct packer p = {.archive = *ret};
	int rc = pack(vm, &p, e);

	*ret = p.archive;
	return rc;
}

/* ---- a disk ---- */

static int send_archive(struct guest *g, const struct op *op, struct bytes archive, struct err *e)
{
	struct guest_write req = {.at = {.path = ARCHIVE}, .mode = 0600};
	auto_inbox struct inbox *in = NULL;
	struct guest_stat stat;
	struct guest_io io = {0};

	if (inbox_new(archive.len + INBOX_SPARE, &in, e) < 0 ||
		inbox_put(in, GUEST_INPUT_DATA, 0, 0, archive, e) < 0 ||
		inbox_put(in, GUEST_INPUT_EOF, 0, 0, (struct bytes){0}, e) < 0)
		return -1;
	io.in = in;
	return guest_write(g, op, &req, &io, &stat, e);
}

static int add_said(void *arg, int stream, struct bytes data, struct err *e)
{
	struct buf *said = arg;

	if (stream != WIRE_STDERR || said->len + data.len > SAID_MAX)
		return 0;
	return buf_add(said, data.p, data.len, e);
}

static int unpack(struct guest *g, const struct op *op, struct err *e)
{
	const char *argv[] = {"/bin/sh", "-c", qemu_script_put_files, "sh", ARCHIVE, NULL};
	auto_buf struct buf said = {0};
	struct guest_exec req = {.argv = argv, .timeout = PUT_SECONDS, .capture_max = SAID_MAX};
	struct guest_io io = {.output = add_said, .arg = &said};
	struct guest_exit end = {0};
	char shown[SAID_MAX];
	size_t len;

	if (guest_exec(g, op, &req, &io, &end, e) < 0)
		return -1;
	if (end.stage == GUEST_RAN && end.code == 0)
		return 0;
	len = said.len;
	while (len && buf_data(&said)[len - 1] == '\n')
		len--;
	str_escape((const char *)buf_data(&said), len, shown, sizeof(shown));
	return err_set(e, ERR_BACKEND, "files: %s", len ? shown : "the disk cannot be written");
}

static int run_helper(
	struct qemu_vm *helper, const struct op *op, struct bytes archive, struct err *e)
{
	struct op boot = op_within(op, helper->env->boot_timeout);
	struct guest *g;
	int rc;

	if (qemu_vm_start(helper, op, e) < 0 || links_take(&helper->links, &boot, &g, e) < 0)
		return -1;
	rc = send_archive(g, op, archive, e);
	if (rc == 0)
		rc = unpack(g, op, e);
	links_give(&helper->links, g);
	/* This writes what QEMU has in memory of the disk. */
	return rc < 0 ? qemu_vm_explain(helper, e) : qemu_vm_stop(helper, op, e);
}

static void remove_logs(const struct qemu_vm *vm)
{
	static const char *const logs[] = {
		"console.log", "console.log.1", "qemu.log", "qemu.log.1"};

	for (unsigned i = 0; i < ARRAY_LEN(logs); i++) {
		auto_free char *path = NULL;
		struct err ignored;

		if (str_printf(&path, &ignored, "%s/%s.%s", vm->dir, vm->spec->name, logs[i]) == 0)
			unlink(path);
	}
}

/* A VM with the system of one image and the disk of the other. */
static int put_on_disk(struct qemu_vm *vm, const struct op *op, struct bytes archive, struct err *e)
{
	auto_image struct image *tiny = NULL;
	auto_image_use struct image_use *use = NULL;
	struct vm_spec spec = {
		.name = vm->spec->name, .ram_mb = HELPER_RAM_MB, .vcpus = 1, .is_sandbox = true};
	struct image mixed;
	struct qemu_vm helper;
	int rc;

	if (store_use(vm->env->store, FILES_HELPER, &tiny, &use, e) < 0)
		return -1;
	mixed = *tiny;
	mixed.disk = vm->image->disk;
	mixed.disk_format = vm->image->disk_format;
	rc = qemu_vm_init(&helper,
		&(struct qemu_vm_where){.env = vm->env,
			.sandbox = vm->sandbox,
			.dir = vm->dir,
			.spec = &spec,
			.kvm = vm->kvm},
		e);
	helper.image = &mixed;
	if (rc == 0)
		rc = run_helper(&helper, op, archive, e);
	qemu_vm_end(&helper, "the files are on the disk");
	helper.image = NULL; /* it was borrowed */
	qemu_vm_free(&helper);
	remove_logs(vm);
	return rc;
}

int qemu_files_put(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	struct packer p = {0};
	int rc;

	/* What boots with our init gets them from it (container.c). */
	if (!vm->spec->n_files || !vm->image->disk || vm->image->container)
		return 0;
	op_progress(op, 0, 0, "putting files onto the disk of %s", vm->spec->name);
	rc = pack(vm, &p, e);
	if (rc == 0)
		rc = put_on_disk(vm, op, buf_bytes(&p.archive), e);
	buf_free(&p.archive);
	return rc;
}
