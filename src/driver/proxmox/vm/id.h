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

/* pve_run for a path of a VM. It is tried again for so many seconds while another client holds
 * the lock of the VM's configuration; only a try shows whether it does. params is used up. */
int pve_run_in_turn(struct pve_sandbox *b, const struct op *op, unsigned vmid, double seconds,
	const char *method, json_t *params, unsigned flags, const char *path, struct err *e);
