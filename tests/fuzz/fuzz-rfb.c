/*
 * fuzz-rfb.c - what viewers send. The same bytes in pieces give the same result; without control
 * nothing that comes out moves a pointer or presses a key; memory stays bounded.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "screen/rfb-filter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int feed(struct rfb_filter *f, struct bytes in, size_t piece, struct buf *out)
{
	struct err e;

	while (in.len) {
		size_t n = in.len < piece ? in.len : piece;

		if (rfb_filter_feed(f, (struct bytes){in.p, n}, out, &e) < 0)
			return -1;
		if (f->in.len > 8192)
			abort();
		in.p += n;
		in.len -= n;
	}
	return 0;
}

/* Reads what got through, as a server would. */
static void check_messages(struct bytes in)
{
	while (in.len) {
		size_t n = in.p[0] == 0 ? 20 : in.p[0] == 3 ? 10 : 0;

		if (in.p[0] == 2 && in.len >= 4)
			n = 4 + 4 * (size_t)(in.p[2] << 8 | in.p[3]);
		if (!n || n > in.len)
			abort();
		in.p += n;
		in.len -= n;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes in = {data, size};
	struct buf whole = {0}, pieces = {0};
	struct rfb_filter a = {.stage = RFB_MESSAGES}, b = {.stage = RFB_MESSAGES},
			  c = {.control = true};

	if ((feed(&a, in, size, &whole) < 0) != (feed(&b, in, 3, &pieces) < 0) ||
		whole.len != pieces.len ||
		(whole.len && memcmp(buf_data(&whole), buf_data(&pieces), whole.len) != 0))
		abort();
	check_messages(buf_bytes(&whole));
	buf_drop(&whole, whole.len);
	(void)feed(&c, in, 7, &whole);
	rfb_filter_free(&a);
	rfb_filter_free(&b);
	rfb_filter_free(&c);
	buf_free(&whole);
	buf_free(&pieces);
	return 0;
}
