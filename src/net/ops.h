/* show.h - a network for people: how it is made, who has which address, what was refused, and ways
 * into it. Any thread between net_open and net_close. */
#pragma once

#include "net/net.h"

/*
 * {"vnets": [...], "nics": [...], "forwards": [...], "refused": {"names": [...], "connections":
 * [...]}}; docs/protocol.md has the members.
 */
int net_show(struct net *net, const struct op *op, json_t **ret, struct err *e);
/* A port of a VM on the host's loopback; host_port 0: any. *ret as in "forwards". */
int net_forward(struct net *net, const struct op *op, size_t vm, unsigned port, unsigned host_port,
	json_t **ret, struct err *e);
int net_unforward(struct net *net, const struct op *op, unsigned host_port, struct err *e);
/* Gives pcap of a vnet (NULL: of all) to output until the op ends. */
int net_capture(struct net *net, const struct op *op, const char *vnet,
	int (*output)(void *arg, struct bytes data, struct err *e), void *arg, struct err *e);
