/* picture.h - a picture of a screen: read, cut, scaled. Pure; what is read comes from a hypervisor
 * that draws what a guest wants. */
#pragma once

#include "util/buf.h"

enum { PICTURE_SIDE_MAX = 8192 }; /* pixels */

/* Zero-initialised is empty. */
struct picture {
	unsigned width, height;
	uint8_t *rgb; /* 3 bytes a pixel, row by row, without gaps */
};

void picture_free(struct picture *p);
#define auto_picture __attribute__((cleanup(picture_free)))

/* An all-black picture. ERR_LIMIT: a side is 0 or too long. */
int picture_new(unsigned width, unsigned height, struct picture *ret, struct err *e);
/* Reads a binary PPM ("P6") with 255 as its largest value. */
int picture_from_ppm(struct bytes in, struct picture *ret, struct err *e);
/* The rectangle from x, y, which must lie within. */
int picture_crop(const struct picture *p, unsigned x, unsigned y, unsigned width, unsigned height,
	struct picture *ret, struct err *e);
/* Stretches to that size: each new pixel is the mean of what it covers. */
int picture_scale(const struct picture *p, unsigned width, unsigned height, struct picture *ret,
	struct err *e);
bool picture_equal(const struct picture *a, const struct picture *b);
