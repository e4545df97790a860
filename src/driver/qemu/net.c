#include "driver/qemu/net.h"

#include <stdio.h>

#include "util/system/log.h"

static size_t count_nics(const struct sandbox_spec *spec)
{
	size_t n = 0;

	for (size_t i = 0; i < spec->n_vms; i++)
		n += spec->vms[i].n_nics;
	return n;
}

int qemu_net_open(const struct driver_env *env, const struct op *op, const char *sandbox,
	const struct sandbox_spec *spec, uint64_t random, char lack[static QEMU_LACK_MAX],
	struct net **ret, struct err *e)
{
	struct net_req req = {.helper_path = env->helper_path,
		.sandbox = sandbox,
		.spec = spec,
		.random = random};
	size_t n = count_nics(spec);

	if (spec->networks.mode == SPEC_NET_NONE || !n)
		return 0;
	op_progress(op, 0, 0, "making the network");
	if (net_open(op, &req, ret, e) == 0)
		return 0;
	/* The only NIC of a sandbox loses nothing on QEMU's own network, which leads nowhere
	 * either: a host without the tools can still run single VMs. */
	if (e->kind == ERR_UNSUPPORTED && spec->networks.mode == SPEC_NET_AUTO && n == 1) {
		log_err(op, LOG_INFO, e, "%s: its NIC is on a user-mode network", sandbox);
		snprintf(lack, QEMU_LACK_MAX,
			"its NIC leads nowhere, and moat net, forward and capture do not work: "
			"%.*s",
			QEMU_LACK_MAX / 2, e->msg);
		op_progress(op, 0, 0, "no vnet: %s", e->msg);
		return 0;
	}
	return -1;
}
