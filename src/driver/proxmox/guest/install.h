/* install.h - puts the runner into a guest, with agent calls of limited size. One thread at a
 * time for a guest. */
#pragma once

#include "driver/proxmox/guest/agent.h"
#include "guestlink/runners.h"

/*
 * *ret_path: where the runner is in the guest, put there now or earlier; it is exactly the program
 * among the runners that is for the guest, and has made its spool directory. ERR_UNSUPPORTED: there
 * is none, or the guest cannot run it, and e says why.
 */
int pve_install(struct pve_agent *a, const struct op *op, const struct runners *runners,
	char **ret_path, struct err *e);
