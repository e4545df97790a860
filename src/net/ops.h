/* ops.h - what clients can see of a running network and do with it: addresses, refused packets,
 * forwarded ports, captures. Any thread between net_open and net_close. */
#pragma once

#include "net/net.h"

/*
 * {"vnets": [...], "nics": [...], "forwards": [...], "refused": {"names": [...], "connections":
 * [...]}}; docs/protocol.md has the members.
 */
int net_show(struct net *net, const struct op *op, json_t **ret, struct err *e);
/* How many bytes a VM's NICs have sent and received. By one thread at a time. */
int net_counters(struct net *net, const struct op *op, size_t vm, int64_t *ret_sent,
	int64_t *ret_received, struct err *e);
/* Forwards a port of the host's loopback to a VM; host_port 0: any. *ret is as in "forwards". */
int net_forward(struct net *net, const struct op *op, size_t vm, unsigned port, unsigned host_port,
	json_t **ret, struct err *e);
int net_unforward(struct net *net, const struct op *op, unsigned host_port, struct err *e);
/* Passes the frames of a vnet (NULL: of all) to output, as a pcap file, until the op ends. */
int net_capture(struct net *net, const struct op *op, const char *vnet,
	int (*output)(void *arg, struct bytes data, struct err *e), void *arg, struct err *e);
