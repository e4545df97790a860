/*
 * usernet.h - NICs on QEMU's own user-mode network, each alone on it: DHCP answers, nothing else
 * does. Pure. The network that needs neither rights nor tools; what connects VMs with each other
 * belongs beside it.
 */
#pragma once

#include "spec/spec.h"
#include "util/strv.h"

/* Adds the arguments for a VM's NICs. random: where MACs of NICs that have none come from. */
/* The address of a NIC: its own, or one made of 40 random bits. */
struct mac_addr usernet_mac(const struct vm_spec *vm, uint64_t random, size_t nic);
void usernet_args(const struct vm_spec *vm, uint64_t random, struct strv *args);
