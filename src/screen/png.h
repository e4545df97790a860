/* png.h - pictures as PNG files. Pure. */
#pragma once

#include "screen/picture.h"

/* Adds the file to ret. */
int png_write(const struct picture *p, struct buf *ret, struct err *e);
