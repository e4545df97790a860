/*
 * VMs are cloned from templates, which are found by their tags. Templates of built-in systems, OVAs
 * and local images are made when they are missing, and stay.
 */
#include "driver/proxmox/images/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "driver/proxmox/images/import.h"
#include "store/cloud.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/system/sha256-file.h"
#include "util/str.h"

/* Where the vendor's image boots once: installs the packages by cloud-init. */
static int cloud_config(char **ret, struct err *e)
{
	auto_buf struct buf text = {0};
	static const char head[] = "#cloud-config\npackage_update: true\npackages:\n",
			  tail[] = "runcmd:\n"
				   "  - [systemctl, enable, --now, qemu-guest-agent]\n"
				   "  - [systemctl, mask, systemd-networkd-wait-online.service]\n";

	if (buf_add(&text, head, sizeof(head) - 1, e) < 0)
		return -1;
	for (unsigned i = 0; cloud_packages[i]; i++)
		if (buf_add(&text, "  - ", 4, e) < 0 ||
			buf_add(&text, cloud_packages[i], strlen(cloud_packages[i]), e) < 0 ||
			buf_add(&text, "\n", 1, e) < 0)
			return -1;
	if (buf_add(&text, tail, sizeof(tail) - 1, e) < 0)
		return -1;
	*ret = buf_take_str(&text);
	return *ret ? 0 : err_oom(e);
}

/* Finds the youngest template with the tag on the node; 0: none. A template without the tag
 * "inspect" is not meant for us. */
static int find_template(
	const json_t *vms, const char *tag, bool only_one, unsigned *ret, struct err *e)
{
	unsigned found = 0;
	const json_t *vm;
	size_t i;

	*ret = 0;
	json_array_foreach((json_t *)vms, i, vm) {
		const char *tags = json_string_value(json_object_get(vm, "tags"));
		unsigned id = (unsigned)json_integer_value(json_object_get(vm, "vmid"));

		if (!json_integer_value(json_object_get(vm, "template")) ||
			!pve_has_tag(tags, "inspect") || !pve_has_tag(tags, tag))
			continue;
		if (found && only_one)
			return err_set(e, ERR_INVALID,
				"several templates have the tag %s: %u and %u", tag, found, id);
		if (id > found)
			found = id;
	}
	*ret = found;
	return 0;
}

static int list_vms(struct pve_vm *vm, const struct op *op, json_t **ret, struct err *e)
{
	return pve_do(vm->sandbox->api, op, "GET", NULL, 0, ret, e, "/nodes/%s/qemu",
		vm->sandbox->inst->node);
}

/* Finds a template, or makes it. One thread at a time makes templates of a site, and looks again
 * before: another thread or client may have made it meanwhile. */
static int find_or_import(struct pve_vm *vm, const struct op *op, const json_t *vms,
	const struct pve_import *im, unsigned *ret, struct err *e)
{
	auto_turn struct turn *held = NULL;
	auto_json json_t *now = NULL;

	if (find_template(vms, im->tag, false, ret, e) < 0 || *ret)
		return *ret ? 0 : -1;
	if (turn_take_saying(&vm->sandbox->site->building, op, "a template to be made", e) < 0)
		return -1;
	held = &vm->sandbox->site->building;
	if (list_vms(vm, op, &now, e) < 0 || find_template(now, im->tag, false, ret, e) < 0)
		return -1;
	return *ret ? 0 : pve_import(vm, op, im, ret, e);
}

static int from_built_in(struct pve_vm *vm, const struct op *op, const json_t *vms, struct err *e)
{
	const char *name = vm->spec->source.built_in;
	const struct cloud_image *known = cloud_find(name);
	struct pve_import im = {.disk = SPEC_DISK_SCSI, .os_type = "l26"};
	char tag[128], full[160], vm_name[160], filename[160];
	auto_free char *url = NULL, *user_data = NULL;

	snprintf(full, sizeof(full), "builtin-%.100s", name);
	pve_tag_text(full, tag);
	if (!known) {
		/* An unknown name is fine if somebody has made such a template by hand. */
		if (find_template(vms, tag, false, &vm->template_id, e) < 0 || vm->template_id)
			return vm->template_id ? 0 : -1;
		return err_set(e, ERR_NOT_FOUND,
			"source.built_in: moat cannot make %s on a server, and there is no "
			"template with the tags \"inspect\" and \"%s\"",
			name, tag);
	}
	if (cloud_url(vm->sandbox->d->env->image_mirror, known->vendor->host, known->dir,
		    known->file, &url, e) < 0 ||
		cloud_config(&user_data, e) < 0)
		return -1;
	im.user_data = user_data;
	snprintf(vm_name, sizeof(vm_name), "inspect-%.100s", name);
	snprintf(filename, sizeof(filename), "moat-%.100s.qcow2", name);
	im.tag = tag;
	im.name = vm_name;
	im.filename = filename;
	*(known->packed ? &im.packed : &im.url) = url;
	return find_or_import(vm, op, vms, &im, &vm->template_id, e);
}

/* Finds or makes the template of a file on this machine; its tag has the hash of the file's
 * content. */
static int from_file(struct pve_vm *vm, const struct op *op, const json_t *vms, const char *path,
	const char *kind, const char *suffix, const char *digest, struct err *e)
{
	struct pve_import im = {.path = path,
		.disk = vm->spec->disk_controller,
		.uefi = vm->spec->uefi_boot,
		.os_type = spec_os_name(vm->spec->os_type)};
	char sum[SHA256_HEX + 1] = "", tag[128], name[64], filename[128];
	const char *controller = spec_disk_name(vm->spec->disk_controller);
	auto_fd int fd = -1;

	if (!digest) {
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return err_sys(e, errno, "%s", path);
		if (sha256_file(op, fd, "reading the OVA", sum, e) < 0)
			return err_wrap(e, "%s", path);
		digest = im.sha256 = sum;
	}
	/* The tag has the controller and the firmware in it: a clone cannot change its
	 * template's. */
	snprintf(tag, sizeof(tag), "%s-%.16s%s%s%s", kind, digest, controller ? "-" : "",
		controller ? controller : "", vm->spec->uefi_boot ? "-uefi" : "");
	snprintf(name, sizeof(name), "inspect-%s-%.16s", kind, digest);
	snprintf(filename, sizeof(filename), "moat-%.32s.%s", digest, suffix);
	im.tag = tag;
	im.name = name;
	im.filename = filename;
	return find_or_import(vm, op, vms, &im, &vm->template_id, e);
}

static int from_image(struct pve_vm *vm, const struct op *op, const json_t *vms, struct err *e)
{
	auto_image struct image *image = NULL;
	auto_image_use struct image_use *use = NULL;

	if (store_use(vm->sandbox->d->env->store, vm->spec->source.image, &image, &use, e) < 0)
		return -1;
	if (!image->disk)
		return err_set(e, ERR_UNSUPPORTED,
			"source.image: %s runs from memory and has no disk that a server could "
			"take",
			image->name);
	return from_file(vm, op, vms, image->disk, "image",
		strcmp(image->disk_format, "raw") == 0 ? "raw" : "qcow2", image->digest, e);
}

static int from_tag(struct pve_vm *vm, const json_t *vms, struct err *e)
{
	const char *tag = vm->spec->source.template_tag;

	if (find_template(vms, tag, true, &vm->template_id, e) < 0)
		return -1;
	if (!vm->template_id)
		return err_set(e, ERR_NOT_FOUND,
			"source.existing_vm_template_tag: node %s has no template with the tags "
			"\"inspect\" and \"%s\"",
			vm->sandbox->inst->node, tag);
	return 0;
}

/* A clone has its template's disks, so a controller in the spec can only be compared with the
 * template's. */
static int check_controller(const struct pve_vm *vm, struct err *e)
{
	const char *wanted = spec_disk_name(vm->spec->disk_controller);
	const char *disk = pve_first_disk(vm->template_config);

	if (!wanted || !disk || str_starts(disk, wanted))
		return 0;
	return err_set(e, ERR_INVALID,
		"disk_controller: %s was asked for, the template's disk is %s", wanted, disk);
}

static int read_template(struct pve_vm *vm, const struct op *op, struct err *e)
{
	const char *os;

	if (pve_do(vm->sandbox->api, op, "GET", NULL, 0, &vm->template_config, e,
		    "/nodes/%s/qemu/%u/config", vm->sandbox->inst->node, vm->template_id) < 0)
		return -1;
	os = json_string_value(json_object_get(vm->template_config, "ostype"));
	vm->windows = spec_os_is_windows(vm->spec->os_type) ||
		      (vm->spec->source.kind == SPEC_SOURCE_TEMPLATE_TAG && os && os[0] == 'w');
	return check_controller(vm, e);
}

int pve_source_find(struct pve_vm *vm, const struct op *op, const json_t *vms, struct err *e)
{
	const struct source_spec *src = &vm->spec->source;
	int rc;

	switch (src->kind) {
	case SPEC_SOURCE_BUILT_IN:
		rc = from_built_in(vm, op, vms, e);
		break;
	case SPEC_SOURCE_OVA:
		rc = from_file(vm, op, vms, src->ova, "ova", "ova", NULL, e);
		break;
	case SPEC_SOURCE_IMAGE:
		rc = from_image(vm, op, vms, e);
		break;
	case SPEC_SOURCE_TEMPLATE_TAG:
		rc = from_tag(vm, vms, e);
		break;
	default:
		rc = err_set(e, ERR_INVALID, "source: missing");
	}
	if (rc < 0 || read_template(vm, op, e) < 0)
		return err_wrap(e, "VM %s", vm->spec->name);
	return 0;
}
