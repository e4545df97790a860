/* rows.h - copies of journal entries, to be worked on by several threads. Used by one thread, but
 * for reading. */
#pragma once

#include "driver/driver.h"

struct pve_rows {
	struct journal_entry *v;
	size_t n;
};
/* Copies our entries that are about VMs, or all others; sandbox NULL: of all sandboxes. */
int pve_rows_read(
	struct journal *j, const char *sandbox, bool vms, struct pve_rows *ret, struct err *e);
void pve_rows_free(struct pve_rows *r);
#define auto_pve_rows __attribute__((cleanup(pve_rows_free)))
