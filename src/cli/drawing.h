/* drawing.h - a network as a picture, from what the daemon tells of it. Pure. */
#pragma once

#include <jansson.h>

#include "util/buf.h"

int drawing_dot(const json_t *net, struct buf *ret, struct err *e);
int drawing_svg(const json_t *net, struct buf *ret, struct err *e);
