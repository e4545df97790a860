/* seed.h - puts a cloud-init disk onto a server. Used by the thread that makes the VM. */
#pragma once

#include "driver/proxmox/site/sandbox.h"

/*
 * Makes the disk here and uploads it to a storage that takes ISO images; journals it before.
 * label: part of its name, different for each VM of the sandbox.
 */
int pve_seed_upload(struct pve_sandbox *b, const struct op *op, const struct vm_spec *spec,
	const char *storage, const char *label, char **ret_volid, int64_t *ret_row, struct err *e);
