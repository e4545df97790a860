#include "driver/qemu/check.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver/qemu/vm/files.h"
#include "util/json.h"

enum { VCPUS_MAX = 255 }; /* more need another interrupt controller than QEMU's own */

static int check_native(const struct vm_spec *vm, size_t i, struct err *e)
{
	const char *key;
	json_t *value, *one;
	size_t at;

	json_object_foreach(vm->native, key, value) {
		if (strcmp(key, "args") != 0)
			return spec_err(e, SPEC_PLACE("vms[%zu].native.%s", i, key),
				"the qemu driver knows only \"args\", a list of arguments for "
				"QEMU");
		if (!json_is_array(value))
			return spec_err(
				e, SPEC_PLACE("vms[%zu].native.args", i), "expected a list");
		json_array_foreach(value, at, one)
			if (!json_is_string(one))
				return spec_err(e, SPEC_PLACE("vms[%zu].native.args[%zu]", i, at),
					"expected a string");
	}
	return 0;
}

/* Whether the files can be put where they are to be, as far as that is known before. */
static int check_files(const struct driver_env *env, const struct vm_spec *vm, bool disk,
	bool initrd, size_t i, struct err *e)
{
	auto_image struct image *helper = NULL;
	struct err why;

	for (size_t k = 0; k < vm->n_files; k++) {
		const char *file = vm->files[k].host_file;

		if (file && access(file, R_OK) < 0)
			return spec_err(e, SPEC_PLACE("vms[%zu].files[%zu].host_file", i, k),
				"%s: %s", file, strerror(errno));
	}
	if (!vm->n_files)
		return 0;
	if (spec_os_is_windows(vm->os_type))
		return spec_unsupported(e, SPEC_PLACE("vms[%zu].files", i),
			"only ext4 is written; copy files into a Windows VM when it runs");
	if (!disk && !initrd)
		return spec_unsupported(e, SPEC_PLACE("vms[%zu].files", i),
			"the image has neither a disk nor an initramfs");
	if (disk && store_find(env->store, FILES_HELPER, &helper, &why) < 0)
		return spec_err(e, SPEC_PLACE("vms[%zu].files", i),
			"they are put onto the disk by a VM of the image \"" FILES_HELPER
			"\", which is not there; build it: moat image build " FILES_HELPER);
	return 0;
}

static int check_cdrom(const char *path, size_t i, struct err *e)
{
	const char *place = SPEC_PLACE("vms[%zu].cdrom", i);
	struct stat st;

	if (access(path, R_OK) < 0 || stat(path, &st) < 0)
		return spec_err(e, place, "%s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return spec_err(e, place, "%s is not a file", path);
	return 0;
}

/* Refuses members that mean nothing to the image: some need a container image, some a system. */
static int check_container(
	const struct image *image, const struct vm_spec *vm, size_t i, struct err *e)
{
	if (image->container && vm->uefi_boot)
		return spec_unsupported(e, SPEC_PLACE("vms[%zu].uefi_boot", i),
			"a container image starts with moat's own kernel");
	if (image->container)
		return 0;
	if (vm->service)
		return spec_err(e, SPEC_PLACE("vms[%zu].service", i),
			"the image was not made of a container image: nothing in it is a service");
	return 0;
}

/* What can be said of an image before it is used. */
static int check_image(
	const struct driver_env *env, const struct vm_spec *vm, size_t i, struct err *e)
{
	auto_image struct image *image = NULL;

	if (store_find(env->store, qemu_source_name(&vm->source), &image, e) < 0)
		return err_wrap(e, "vms[%zu].source", i);
	if (strcmp(image->arch, "x86_64") != 0)
		return spec_unsupported(
			e, SPEC_PLACE("vms[%zu].source", i), "an image for %s", image->arch);
	if (vm->uefi_boot && strcmp(image->firmware, "bios") == 0)
		return spec_err(
			e, SPEC_PLACE("vms[%zu].uefi_boot", i), "the image boots from BIOS only");
	if (!vm->uefi_boot && strcmp(image->firmware, "uefi") == 0)
		return spec_err(e, SPEC_PLACE("vms[%zu].uefi_boot", i),
			"the image boots from UEFI only: set it to true");
	if (vm->ram_mb < image->min_ram_mb)
		return spec_err(e, SPEC_PLACE("vms[%zu].ram_mb", i),
			"the image needs at least %llu", (unsigned long long)image->min_ram_mb);
	if (vm->vcpus > VCPUS_MAX)
		return spec_err(
			e, SPEC_PLACE("vms[%zu].vcpus", i), "at most %d in a local VM", VCPUS_MAX);
	if (vm->disk_gb && !image->disk)
		return spec_err(e, SPEC_PLACE("vms[%zu].disk_gb", i), "the image has no disk");
	if (vm->cloud_init &&
		(image->cloud_init == KNOWN_NO || (!image->disk && image->cloud_init == UNKNOWN)))
		return spec_unsupported(e, SPEC_PLACE("vms[%zu].cloud_init", i),
			"there is no cloud-init in the image; `files` puts files into it, and "
			"debian12 and debian13 have cloud-init");
	if (check_container(image, vm, i, e) < 0)
		return -1;
	return check_files(
		env, vm, image->disk && !image->container, image->kernel && image->initrd, i, e);
}

/* The port must be somewhere: moat connects to an address that it gives the VM. */
static int check_ready_port(const struct sandbox_spec *spec, size_t i, struct err *e)
{
	const struct vm_spec *vm = &spec->vms[i];

	for (size_t k = 0; k < vm->n_nics; k++) {
		const struct vnet_spec *vnet;

		if (vm->nics[k].vnet_index == SPEC_NO_VNET)
			continue;
		vnet = &spec->networks.vnets[vm->nics[k].vnet_index];
		if (spec->networks.mode == SPEC_NET_AUTO ||
			(vnet->n_subnets && (vnet->dhcp || vm->nics[k].ipv4)))
			return 0;
	}
	return spec_err(e, SPEC_PLACE("vms[%zu].ready_port", i),
		"no NIC of the VM gets an address from moat");
}

static int check_vm(const struct driver_env *env, const struct vm_spec *vm, size_t i, struct err *e)
{
	if (vm->source.kind == SPEC_SOURCE_TEMPLATE_TAG)
		return spec_unsupported(e,
			SPEC_PLACE("vms[%zu].source.existing_vm_template_tag", i),
			"templates are on Proxmox servers; the qemu driver takes an image");
	if (vm->source.kind == SPEC_SOURCE_NONE)
		return spec_err(e, SPEC_PLACE("vms[%zu].source", i), "missing");
	if (vm->firewall)
		return spec_unsupported(e, SPEC_PLACE("vms[%zu].firewall", i),
			"the Proxmox firewall is not here; local sandboxes are isolated without "
			"it");
	if (vm->cdrom && check_cdrom(vm->cdrom, i, e) < 0)
		return -1;
	if (vm->source.kind == SPEC_SOURCE_OCI || vm->source.kind == SPEC_SOURCE_DOCKERFILE) {
		/* `up` gets the image and comes here once more. */
		if (check_files(env, vm, false, true, i, e) < 0)
			return -1;
	} else if (vm->source.kind == SPEC_SOURCE_OVA) {
		if (access(vm->source.ova, R_OK) < 0)
			return spec_err(e, SPEC_PLACE("vms[%zu].source.ova", i), "%s: %s",
				vm->source.ova, strerror(errno));
		if (check_files(env, vm, true, false, i, e) < 0)
			return -1;
	} else if (check_image(env, vm, i, e) < 0) {
		return -1;
	}
	return check_native(vm, i, e);
}

int qemu_check_spec(const struct driver_env *env, const struct sandbox_spec *spec, struct err *e)
{
	if (spec->pool)
		return spec_unsupported(e, "pool", "the qemu driver has no pools");
	if (json_object_size(spec->native))
		return spec_unsupported(
			e, "native", "the qemu driver takes native settings for each VM only");
	for (size_t i = 0; i < spec->n_vms; i++)
		if (check_vm(env, &spec->vms[i], i, e) < 0 ||
			(spec->vms[i].ready_port && check_ready_port(spec, i, e) < 0))
			return -1;
	return 0;
}
