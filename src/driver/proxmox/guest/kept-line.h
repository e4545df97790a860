/*
 * kept-line.h - the kept line into a VM: a line (guestlink/line/line.h) to a runner that serves the
 * VM's second serial port, through the server's console websocket. It is for VMs that are used
 * often: a command costs milliseconds there, and an agent call a tenth of a second. It costs the
 * server a process, so it is closed when it is idle. Any thread.
 */
#pragma once

#include "driver/proxmox/guest/runner.h"

struct pve_kept_line;

struct pve_kept_line_vm { /* all of it outlives the kept line */
	struct pve_agent *agent;
	struct pve_runner *runner;
	const char *name; /* for the log */
};
int pve_kept_line_new(const struct pve_kept_line_vm *vm, struct pve_kept_line **ret, struct err *e);
/* No thread may have the line any more. */
void pve_kept_line_free(struct pve_kept_line *c); /* NULL is fine */

/*
 * Called at each use of the VM: *ret is the line, or NULL if there is none. When uses come often,
 * the line is opened in the background. need: open it now and wait for it; -1 if that fails.
 */
int pve_kept_line_take(
	struct pve_kept_line *c, const struct op *op, bool need, struct guest **ret, struct err *e);
void pve_kept_line_give(struct pve_kept_line *c);

/* The VM was reset or went back to a snapshot: ends the line, and whatever uses it. */
void pve_kept_line_forget(struct pve_kept_line *c);
