/*
 * guest.h - the link into a VM on a Proxmox VE server: calls of the guest agent through its API,
 * and a kept line over the VM's second serial port where commands come often. Any thread.
 */
#pragma once

#include "guestlink/guest.h"
#include "guestlink/runners.h"
#include "driver/proxmox/api/api.h"

/* The VM; all of it outlives the guest. */
struct pve_guest_vm {
	struct pve_api *api;
	const char *node, *name; /* name: for messages */
	unsigned vmid;
	bool windows;
	const struct runners *runners;
	bool serial1;     /* the VM has serial1: socket */
	bool large_calls; /* see agent.h */
	/* For large files and input (disc.h). */
	const char *iso_storage; /* takes ISO images; NULL: none does */
	const char *cdrom;       /* an empty drive since boot, "sata5"; NULL: none */
	const char *stamp;       /* what names of uploads begin with */
	const char *scratch_dir; /* for what is being uploaded */
	/* Journals an ISO image ("local:iso/x.iso") before it is uploaded, and forgets it once it
	 * is gone. */
	int (*iso_intent)(void *arg, const char *volid, int64_t *ret_row, struct err *e);
	void (*iso_gone)(void *arg, int64_t row);
	void *arg;
};

/* Returns when the guest agent answers; op says how long that may take. */
int pve_guest_open(
	const struct pve_guest_vm *vm, const struct op *op, struct guest **ret, struct err *e);
/* The VM went back to a snapshot, or was reset: nothing that is known of the guest is certain
 * any more. */
void pve_guest_forget(struct guest *g);
/* Waits until the drive for large files is empty, and keeps it empty until the release. */
int pve_guest_hold(struct guest *g, const struct op *op, struct err *e);
void pve_guest_release(struct guest *g);
