/* A first way into a guest: waits for the agent, and can do nothing yet. */
#include "guest/pve-guest.h"

#include <stdlib.h>

struct pve_guest {
	struct guest base;
};

static void pve_guest_end(struct guest *g)
{
	free(g);
}

static const struct guest_ops ops = {.name = "agent", .free = pve_guest_end};

int pve_guest_open(
	const struct pve_guest_vm *vm, const struct op *op, struct guest **ret, struct err *e)
{
	struct pve_guest *g;

	while (pve_do(vm->api, op, "POST", NULL, PVE_TWICE, NULL, e, "/nodes/%s/qemu/%u/agent/ping",
		       vm->node, vm->vmid) < 0) {
		if (e->kind == ERR_CANCELLED || e->kind == ERR_TIMEOUT)
			return -1;
		if (op_pause(op, 0.3, e) < 0)
			return -1;
	}
	g = calloc(1, sizeof(*g));
	if (!g)
		return err_oom(e);
	g->base.ops = &ops;
	*ret = &g->base;
	return 0;
}

void pve_guest_forget(struct guest *g)
{
	(void)g;
}
