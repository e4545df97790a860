/*
 * net.h - a sandbox's network as its driver sees it: opened before the first VM starts, asked for a
 * tap for each NIC, closed after the last. Everything is made by a holder process (holder.h), and
 * goes when that ends.
 *
 * Thread contract: open and close belong to the box's owner; everything else may be called by any
 * thread in between.
 */
#pragma once

#include "net/plan.h"
#include "util/json.h"
#include "util/op.h"

struct net;

struct net_req {
	const char *helper_path;
	const char *sandbox; /* id; the holder carries it on its command line as QEMU does */
	const struct sandbox_spec *spec; /* outlives the network */
	uint64_t random;                 /* where MACs come from: the same gives the same */
	bool unrecorded;                 /* without the captures that the spec wants */
};

/* When it returns, all rules are in force. Fails with what is missing and how to get it. */
int net_open(const struct op *op, const struct net_req *req, struct net **ret, struct err *e);
/* Its sandbox is made: captures stay from now on. NULL is fine, here and below. */
void net_keep(struct net *net);
void net_close(struct net *net);

const struct net_plan *net_plan(const struct net *net);
/* A tap for that NIC, with vnet_hdr, for `-netdev tap,fd=N`. A NIC may be opened again when whoever
 * had it has ended. */
int net_tap(
	struct net *net, const struct op *op, size_t vm, size_t nic, int *ret_fd, struct err *e);
/* Readable when the network has ended by itself; the VMs are of no use then. Not to be closed. */
int net_end_fd(const struct net *net);
/* Why it ended; "" if nobody said. */
void net_end_reason(struct net *net, char *out, size_t size);

/* One request of net-show.c and others to the holder. *ret_fd -1: the answer has none. */
int net_ask(struct net *net, const struct op *op, const char *what, json_t *args, json_t **ret,
	int *ret_fd, struct err *e);
