/* upload.h - files on a server's storages. Any thread. */
#pragma once

#include "driver/proxmox/api/api.h"

struct pve_upload {
	const char *node, *storage;
	const char *content; /* "iso", "import" */
	const char *name;    /* of the file on the storage */
	int fd;              /* read from its beginning */
	uint64_t size;
	const char *sha256; /* hex; NULL: not checked by the server */
	const char *text;   /* for op_progress; NULL: none */
};
/* Uploads a file and waits until the server has it in place. */
int pve_upload(
	struct pve_api *api, const struct op *op, const struct pve_upload *up, struct err *e);

/* Deletes a volume ("local:iso/x.iso") and waits until it is gone; fine if there is none. */
int pve_volume_delete(struct pve_api *api, const struct op *op, const char *node, const char *volid,
	struct err *e);
