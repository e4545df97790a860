/*
 * net.h - a sandbox's network as its driver sees it: opened before the first VM starts, asked for a
 * tap for each NIC, closed after the last VM has ended. A holder process (net/holder/holder.h)
 * makes everything, and all of it goes when that process ends.
 *
 * Thread contract: open and close belong to the sandbox's owner; everything else may be called by
 * any thread in between.
 */
#pragma once

#include "net/plan/plan.h"
#include "util/json.h"
#include "util/thread/op.h"

struct net;

struct net_req {
	const char *helper_path;
	const char *sandbox; /* id; the holder carries it on its command line as QEMU does */
	const struct sandbox_spec *spec; /* must outlive the network */
	uint64_t random;  /* MACs are made of it: the same number gives the same MACs */
	bool no_captures; /* do not make the captures of the spec */
};

/* When it returns, all rules are in force. An error says what the host lacks and how to get it. */
int net_open(const struct op *op, const struct net_req *req, struct net **ret, struct err *e);
/* Call it when the sandbox is made: net_close then keeps the files of captures. NULL is fine, here
 * and below. */
void net_keep_captures(struct net *net);
void net_close(struct net *net);

const struct net_plan *net_plan(const struct net *net);
/* Opens the tap of a NIC, with vnet_hdr, for `-netdev tap,fd=N`. It may be opened again when the
 * process that had it has ended. */
int net_tap(
	struct net *net, const struct op *op, size_t vm, size_t nic, int *ret_fd, struct err *e);
/* Readable when the holder has ended by itself; the VMs are of no use then. Not to be closed. */
int net_end_fd(const struct net *net);
/* Why the holder ended; "" if it did not say. */
void net_end_reason(struct net *net, char *out, size_t size);

/* The kernel's file of the interfaces' counters, to be read from its beginning each time; not to be
 * closed. By one thread at a time. */
int net_counters_file(struct net *net, const struct op *op, int *ret_fd, struct err *e);

/* Sends a request to the holder and waits for the answer. Takes args. *ret_fd: the answer's file
 * descriptor, or -1. */
int net_request(struct net *net, const struct op *op, const char *what, json_t *args, json_t **ret,
	int *ret_fd, struct err *e);
