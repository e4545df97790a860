/* fuzz-frame.c - a stream of frames in arbitrary pieces. The first bytes choose the limits. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_frame(
	const uint8_t *p, size_t len, const struct frame *f, const struct frame_limits *limits)
{
	uint8_t header[FRAME_HEADER];

	if (f->head_len < limits->head_min || f->head_len > limits->head_max ||
		f->body_len > limits->body_max)
		abort();
	if (f->head != p + FRAME_HEADER || f->body != f->head + f->head_len ||
		f->body + f->body_len > p + len)
		abort();
	frame_encode_header(header, f->head_len, f->body_len);
	if (memcmp(header, p, FRAME_HEADER) != 0)
		abort();
}

/* A complete frame stays the same frame with more bytes behind it, and is incomplete with fewer. */
static void check_prefixes(
	const uint8_t *p, size_t len, long whole, const struct frame_limits *limits)
{
	struct frame f;

	if (frame_decode(p, (size_t)whole, limits, &f) != whole ||
		frame_decode(p, (size_t)whole - 1, limits, &f) != 0 ||
		frame_decode(p, len, limits, &f) != whole)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct frame_limits limits;
	struct frame f;
	long n;

	if (size < 3)
		return 0;
	limits = (struct frame_limits){.head_min = data[0] % 4,
		.head_max = data[1] == 255 ? UINT32_MAX : data[1] * 4u,
		.body_max = data[2] == 255 ? UINT32_MAX : data[2] * 16u};
	data += 3;
	size -= 3;
	while ((n = frame_decode(data, size, &limits, &f)) > 0) {
		check_frame(data, size, &f, &limits);
		check_prefixes(data, size, n, &limits);
		data += n;
		size -= (size_t)n;
	}
	if (n < 0 && size < FRAME_HEADER)
		abort();
	return 0;
}
