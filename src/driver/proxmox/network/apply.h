/*
 * apply.h - applies of SDN changes. Each takes seconds, concerns the whole cluster, and stops the
 * DHCP servers of all zones meanwhile: so sandboxes share them, and VMs start before or after one.
 * Any thread.
 */
#pragma once

#include "driver/proxmox/site/site.h"

/* A thread makes changes that will need an apply: the next apply waits a moment for it. */
struct pve_change {
	struct pve_site *site; /* NULL: none */
};
void pve_change_begin(struct pve_change *c, struct pve_site *s);
void pve_change_end(
	struct pve_change *c); /* it has asked for its apply, or failed; twice is fine */
#define auto_pve_change __attribute__((cleanup(pve_change_end), unused))

/* Asks for an apply of all that is configured now; returns its number. */
uint64_t pve_apply_want(struct pve_site *s);
/* Sees to it that this apply, or a later one, has been made. */
int pve_apply(struct pve_site *s, const struct op *op, uint64_t number, struct err *e);
/* pve_apply for a caller that has the turn `applying`. */
int pve_apply_in_turn(struct pve_site *s, const struct op *op, uint64_t number, struct err *e);
/* pve_apply for changes that are not urgent: while there are other sandboxes, it first waits a
 * moment for somebody else's apply. */
int pve_apply_later(struct pve_site *s, const struct op *op, uint64_t number, struct err *e);

/* A VM is about to start: waits for the end of an apply, and keeps the next one off. */
int pve_start_enter(struct pve_site *s, const struct op *op, struct err *e);
void pve_start_leave(struct pve_site *s);
