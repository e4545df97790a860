/* fuzz-sums.c - what mirrors send as a proof: the first byte chooses the parser. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/make/sums.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_list(struct bytes in, unsigned digits)
{
	char hex[SUM_HEX_MAX + 1];
	struct err e;

	if (sums_find(in, "disk.img", digits, hex, &e) == 0 &&
		(strlen(hex) != digits || strspn(hex, "0123456789abcdef") != digits))
		abort();
}

static void try_key(struct bytes in)
{
	auto_buf struct buf key = {0};
	struct err e;

	if (sums_unarmour(in, &key, &e) == 0 && key.len > in.len)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes in;

	if (size == 0)
		return 0;
	in = (struct bytes){data + 1, size - 1};
	switch (data[0] % 4) {
	case 0:
		try_list(in, 64);
		break;
	case 1:
		try_list(in, 128);
		break;
	case 2:
		try_key(in);
		break;
	default:
		sums_signed_by(in, "827C8569F2518CC677FECA1AED65462EC8D5E4C5");
	}
	return 0;
}
