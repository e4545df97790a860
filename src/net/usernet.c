#include "net/usernet.h"

#include <string.h>

static bool mac_given(struct mac_addr mac)
{
	static const struct mac_addr none;

	return memcmp(&mac, &none, sizeof(mac)) != 0;
}

static struct mac_addr make_mac(uint64_t random)
{
	/* 02: locally administered */
	return (struct mac_addr){{0x02, (uint8_t)(random >> 32), (uint8_t)(random >> 24),
		(uint8_t)(random >> 16), (uint8_t)(random >> 8), (uint8_t)random}};
}

struct mac_addr usernet_mac(const struct vm_spec *vm, uint64_t random, size_t nic)
{
	return mac_given(vm->nics[nic].mac) ? vm->nics[nic].mac : make_mac(random + nic);
}

void usernet_args(const struct vm_spec *vm, uint64_t random, struct strv *args)
{
	const char *model = vm->nic_controller == SPEC_NIC_E1000 ? "e1000" : "virtio-net-pci";

	for (size_t i = 0; i < vm->n_nics; i++) {
		struct mac_addr mac = usernet_mac(vm, random, i);
		char text[MAC_TEXT_MAX];

		strv_add(args, "-netdev");
		/* restrict: no way to the host or out */
		strv_addf(args, "user,id=net%zu,restrict=on,ipv6=off", i);
		strv_add(args, "-device");
		strv_addf(args, "%s,netdev=net%zu,mac=%s,romfile=", model, i, mac_text(mac, text));
	}
}
