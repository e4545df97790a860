/* import.h - makes a template from a disk or an OVA that is on this machine or on the net. One
 * thread at a time for a site (pve_site.building). */
#pragma once

#include "driver/proxmox/site/sandbox.h"

struct pve_import {
	const char *tag;       /* what it will be found by */
	const char *name;      /* of the VM that becomes the template */
	const char *path;      /* a local file: qcow2, raw, vmdk or OVA; or */
	const char *url;       /* something that the server downloads itself, or */
	const char *packed;    /* an archive with a disk, which we download and unpack for it */
	const char *filename;  /* on the server's storage */
	const char *sha256;    /* of the local file */
	const char *user_data; /* boot it once with this cloud-init, and an open network; or NULL */
	enum spec_disk disk;
	bool uefi;
	const char *os_type;
};
int pve_import(struct pve_vm *vm, const struct op *op, const struct pve_import *im,
	unsigned *ret_template, struct err *e);

/* Removes what an earlier daemon had downloaded. Before the first import. */
void pve_import_sweep(const struct driver_env *env);
