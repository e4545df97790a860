/*
 * pve-channel.h - the kept channel into a VM: a line (guest/line.h) to a runner that serves the
 * VM's second serial port, through the server's console websocket. For VMs that are used often: a
 * command costs milliseconds, where an agent call costs a tenth of a second. It costs the server a
 * process, so it is closed when it is idle. Any thread.
 */
#pragma once

#include "guest/pve-runner.h"

struct pve_channel;

struct pve_channel_vm { /* all of it outlives the channel */
	struct pve_agent *agent;
	struct pve_runner *runner;
	const char *name; /* for the log */
};
int pve_channel_new(const struct pve_channel_vm *vm, struct pve_channel **ret, struct err *e);
/* After the last give. */
void pve_channel_free(struct pve_channel *c); /* NULL is fine */

/*
 * A use of the VM: the line, if there is one, otherwise NULL in *ret. When uses come often, it is
 * being opened meanwhile. need: open it now and wait for it, -1 if that fails.
 */
int pve_channel_take(
	struct pve_channel *c, const struct op *op, bool need, struct guest **ret, struct err *e);
void pve_channel_give(struct pve_channel *c);

/* The VM is not what it was: ends the line, and whatever uses it. */
void pve_channel_forget(struct pve_channel *c);
