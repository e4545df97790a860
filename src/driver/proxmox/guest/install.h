/* pve-install.h - putting the runner into a guest with agent calls of limited size. */
#pragma once

#include "guest/pve-agent.h"

/*
 * *ret_path: where it is in the guest, now or already; exactly the program at runner_path. It has
 * made its spool directory. ERR_UNSUPPORTED: the guest cannot run it, and e says why.
 */
int pve_install(struct pve_agent *a, const struct op *op, const char *runner_path, char **ret_path,
	struct err *e);
