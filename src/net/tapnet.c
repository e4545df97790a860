#include "net/tapnet.h"

void tapnet_args(const struct net_plan *p, size_t vm, int first_fd, struct strv *args)
{
	bool e1000 = p->spec->vms[vm].nic_controller == SPEC_NIC_E1000;

	for (size_t i = 0; i < p->spec->vms[vm].n_nics; i++) {
		const struct net_nic *nic = net_plan_nic(p, vm, i);
		char mac[MAC_TEXT_MAX];

		strv_add(args, "-netdev");
		strv_addf(args, "tap,id=net%zu,fd=%d", i, first_fd + (int)i);
		strv_add(args, "-device");
		strv_addf(args,
			"%s,netdev=net%zu,mac=%s,romfile=", e1000 ? "e1000" : "virtio-net-pci", i,
			mac_text(nic->mac, mac));
	}
}
