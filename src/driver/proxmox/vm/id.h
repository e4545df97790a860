/* id.h - numbers for new VMs, and calls about a VM that wait for the lock of its configuration. Any
 * thread. */
#pragma once

#include "driver/proxmox/site/sandbox.h"

/* Runs make() with one number after the other until one is not taken by another client; journals
 * each before. */
int pve_vm_new(struct pve_sandbox *b, const struct op *op, const char *kind,
	int (*make)(void *arg, unsigned vmid, const struct op *op, struct err *e), void *arg,
	unsigned *ret_vmid, int64_t *ret_row, struct err *e);

/* Keeps a number from being chosen for a new VM; false: another thread has reserved it, or there
 * is no room. */
bool pve_id_keep(struct pve_site *s, unsigned id);
void pve_id_release(struct pve_site *s, unsigned id);

/* A call about a VM that starts a task. */
struct pve_vm_call {
	unsigned vmid;
	double seconds; /* how long it is tried again while another client holds the lock */
	const char *method, *path;
	json_t *params; /* used up */
	unsigned flags;
	const char *once; /* the type of its task, if it must not be done twice; else NULL */
};
/* pve_run_once. Only a try shows whether another client holds the lock of the VM's configuration.
 */
int pve_run_in_turn(
	struct pve_sandbox *b, const struct op *op, const struct pve_vm_call *call, struct err *e);
