/*
 * rfb-filter.h - what a viewer may say to a VNC server (the protocol RFB, RFC 6143). A viewer that
 * only looks gets no key and no movement of the pointer through; none changes the size of the
 * screen, the clipboard, the power, or ends other viewers. Pure; one thread at a time.
 */
#pragma once

#include "util/buf.h"

enum rfb_stage { RFB_VERSION, RFB_SECURITY, RFB_INIT, RFB_MESSAGES };

/* Zero-initialised, with control as wanted, is at the beginning of a connection. */
struct rfb_filter {
	bool control; /* keys and pointer get through */
	enum rfb_stage stage;
	struct buf in;      /* the beginning of a message */
	uint64_t skips;     /* bytes of a message that is dropped and has not come yet */
	uint8_t pointer[6]; /* the last message about it that got through */
};

void rfb_filter_free(struct rfb_filter *f);

/* Adds to out what lets go of the pointer's buttons that the viewer has left pressed. */
int rfb_filter_end(const struct rfb_filter *f, struct buf *out, struct err *e);
/* Adds to out what may pass of what the viewer has sent. Fails if that is no RFB. */
int rfb_filter_feed(struct rfb_filter *f, struct bytes in, struct buf *out, struct err *e);
