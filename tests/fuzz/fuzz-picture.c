/* fuzz-picture.c - pictures as a hypervisor writes them: whatever is read can be cut, scaled and
 * written. */
#include <stdint.h>
#include <stdlib.h>

#include "screen/png.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_picture struct picture p = {0}, part = {0}, scaled = {0};
	auto_buf struct buf png = {0};
	struct err e;
	uint8_t a = size ? data[size - 1] : 0;

	if (picture_from_ppm((struct bytes){data, size}, &p, &e) < 0)
		return 0;
	if (picture_crop(&p, a, a / 2, 1 + a % 7, 1 + a % 5, &part, &e) == 0 && !part.rgb)
		abort();
	if (picture_scale(part.rgb ? &part : &p, 1 + a, 1 + a / 3, &scaled, &e) < 0 ||
		png_write(&scaled, &png, &e) < 0)
		abort();
	return 0;
}
