/*
 * reach.h - what can be seen of a VM from outside, for VMs that nobody looks into: an answer at its
 * address, and a port that takes connections. Any thread between net_open and net_close.
 */
#pragma once

#include "net/net.h"

/* Whether moat knows an address of the VM, or gives it one. */
bool net_is_addressed(const struct net *net, size_t vm);
/*
 * Waits until the VM answers at its addresses: at each that the spec reserves for it, or, where
 * there is none, at one that DHCP gave it. end_fd: readable when the VM has ended, which is
 * ERR_UNAVAILABLE.
 */
int net_await_answer(struct net *net, const struct op *op, size_t vm, int end_fd, struct err *e);
/* Waits until the VM takes a TCP connection at this port. */
int net_await_port(
	struct net *net, const struct op *op, size_t vm, unsigned port, int end_fd, struct err *e);
