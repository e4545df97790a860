/* fuzz-cpio.c - initramfs archives. What is found in archives must be in them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/disk/cpio.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes in = {data, size};

	if (cpio_has(in, "etc") && !memmem(data, size, "etc", 3))
		abort();
	cpio_has(in, "");
	return 0;
}
