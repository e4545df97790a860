/*
 * allow.h - what a page may ask of the daemon. The gateway has the rights of its user; a page gets
 * those that looking at sandboxes needs, and those of working in them once its person wants that.
 * Nothing here names a file of the host. Pure.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "util/err.h"

enum allow {
	ALLOW_PASS,
	ALLOW_REFUSE, /* the request is answered with the error */
	ALLOW_BREAK,  /* it is no frame that the page sends: the connection ends */
};

/* Judges a frame of the client protocol. acting: the person wants to change something. */
enum allow allow_frame(const json_t *frame, bool acting, struct err *e);
