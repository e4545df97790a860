/*
 * capture.h - reads all frames of a vnet. The socket sees every frame of the network namespace
 * several times; we take a frame when it comes in from a guest, or when moat itself sends it to
 * one. So each frame is taken once, even one that the rules refuse afterwards. Any thread.
 */
#pragma once

#include "util/buf.h"
#include "util/thread/op.h"

struct capture {
	int fd;    /* AF_PACKET, opened in the sandbox's network namespace */
	int *taps; /* interface numbers of the NICs' taps */
	size_t n_taps;
	int *gates; /* of moat's own interfaces in the vnets */
	size_t n_gates;
};

/* Call it on a thread in the sandbox's network namespace. */
int capture_socket(int *ret, struct err *e);
/* Passes a pcap file to output until the op ends or output fails. output gets whole frames. */
int capture_run(const struct capture *c, const struct op *op,
	int (*output)(void *arg, struct bytes data, struct err *e), void *arg, struct err *e);
