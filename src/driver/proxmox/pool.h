/* pool.h - room for sandboxes on the instances of their pool, and `moat pool`. Any thread. */
#pragma once

#include "driver/proxmox/site/sandbox.h"

/* Waits for room for the sandbox on an instance of its pool, and takes it. *ret_vms: the VMs on the
 * node, as the server lists them. */
int pve_pool_enter(struct pve_sandbox *b, const struct op *op, struct pve_inst *const *insts,
	json_t **ret_vms, struct err *e);
void pve_pool_started(struct pve_sandbox *b); /* its memory shows in the node's figures now */
void pve_pool_leave(struct pve_sandbox *b);

struct pve_room { /* memory of a node */
	int64_t total_mb;
	int64_t left_mb; /* without what running VMs were promised and have not touched */
};
/* *ret_vms: as above; may be NULL. */
int pve_room_ask(struct pve_inst *inst, const struct op *op, struct pve_room *ret, json_t **ret_vms,
	struct err *e);

void pve_inst_failed(struct pve_driver *d, struct pve_inst *inst, const struct err *why);
void pve_inst_dirty(struct pve_driver *d, struct pve_inst *inst, const struct err *why);

/* See `pool` in driver.h. */
int pve_pool_op(
	struct driver *base, const struct op *op, const json_t *args, json_t **ret, struct err *e);
