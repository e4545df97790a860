/* node.h - what a node has, asked once a sandbox, and the version of its server. Any thread. */
#pragma once

#include "driver/proxmox/site/site.h"

struct pve_storages {
	char *iso, *import;  /* that take such content; NULL: none */
	char *work;          /* where the server unpacks OVAs; NULL: nowhere */
	const char *format;  /* for disks on the image storage: "qcow2", or NULL for its default */
	bool images;         /* the image storage takes disks */
	char image_type[32]; /* "lvmthin", "dir", ... */
	/* Commands for the node's administrator, which add what is missing. */
	char fix_iso[160], fix_import[160], fix_work[160];
};
int pve_storages_find(
	struct pve_inst *inst, const struct op *op, struct pve_storages *ret, struct err *e);
void pve_storages_free(struct pve_storages *s);
#define auto_pve_storages __attribute__((cleanup(pve_storages_free)))

/* Servers from this version on take disk images to import; OVAs came one version earlier. */
#define PVE_DISKS_SINCE       8, 4
#define PVE_LARGE_CALLS_SINCE 8, 4
/* Whether the server's version is lower than that; text is for messages. A version that cannot be
 * read counts as new enough. */
int pve_older_than(struct pve_site *site, const struct op *op, int major, int minor, bool *ret,
	char ret_text[32], struct err *e);

/* Whether the node can run VMs with KVM; one whose status may not be seen counts as able. */
int pve_lacks_kvm(struct pve_inst *inst, const struct op *op, bool *ret, struct err *e);

/* GET, or what it answered less than two minutes ago. */
int pve_fetch(
	struct pve_site *site, const struct op *op, const char *path, json_t **ret, struct err *e);
