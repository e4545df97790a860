/*
 * capture.h - listening to a vnet. A socket sees every frame of the namespace; a frame is taken
 * when it comes in from a guest, or when moat itself sends it to one, so each is there once, and
 * also those that the rules then refuse.
 */
#pragma once

#include "util/buf.h"
#include "util/op.h"

struct capture {
	int fd;    /* AF_PACKET, from inside */
	int *taps; /* interface numbers of its NICs */
	size_t n_taps;
	int *bridges;
	size_t n_bridges;
};

/* On a thread that is inside. */
int capture_socket(int *ret, struct err *e);
/* Gives pcap to output until the op ends or output fails; output gets whole frames at a time. */
int capture_run(const struct capture *c, const struct op *op,
	int (*output)(void *arg, struct bytes data, struct err *e), void *arg, struct err *e);
