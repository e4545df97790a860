/* install.h - puts the runner into a guest, with agent calls of limited size. One thread at a
 * time for a guest. */
#pragma once

#include "driver/proxmox/guest/agent.h"

/*
 * *ret_path: where the runner is in the guest, put there now or earlier; it is exactly the program
 * at runner_path, and has made its spool directory. ERR_UNSUPPORTED: the guest cannot run it, and e
 * says why.
 */
int pve_install(struct pve_agent *a, const struct op *op, const char *runner_path, char **ret_path,
	struct err *e);
