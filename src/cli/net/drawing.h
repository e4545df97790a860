/* drawing.h - draws a sandbox's networks, from the daemon's answer to `net.show`. Pure. */
#pragma once

#include <jansson.h>

#include "util/buf.h"

int drawing_dot(const json_t *net, struct buf *ret, struct err *e);
int drawing_svg(const json_t *net, struct buf *ret, struct err *e);
