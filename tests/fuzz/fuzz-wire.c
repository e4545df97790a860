/* fuzz-wire.c - all parsers of what the runner sends: the first byte chooses the parser. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "guestlink/line/hello.h"
#include "wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was decoded must encode to the same bytes: nothing is ignored or read twice. */
static void try_frames(const uint8_t *p, size_t len, const struct frame_limits *limits)
{
	struct frame frame;
	long n;

	while ((n = frame_decode(p, len, limits, &frame)) > 0) {
		uint8_t again[WIRE_HEAD_MAX];
		struct wire_msg msg;

		if ((size_t)n > len || frame.body + frame.body_len != p + n)
			abort();
		if (wire_decode(frame.head, frame.head_len, &msg) &&
			(wire_encode(&msg, again) != frame.head_len ||
				memcmp(again, frame.head, frame.head_len) != 0))
			abort();
		p += n;
		len -= (size_t)n;
	}
}

static void try_strings(const uint8_t *p, size_t left)
{
	const uint8_t *end = p + left;
	const char *s;

	while ((s = wire_next_string(&p, &left)))
		if ((const uint8_t *)s + strlen(s) + 1 != p || p + left != end)
			abort();
}

static void try_entries(const uint8_t *p, size_t left)
{
	const uint8_t *end = p + left;
	struct wire_entry entry;

	while (wire_next_entry(&p, &left, &entry) > 0) {
		uint8_t again[WIRE_ENTRY_MAX];
		size_t n = wire_put_entry(&entry, again);

		if (p + left != end || (n && memcmp(again, p - n, n) != 0))
			abort();
	}
}

static void try_hello(const uint8_t *p, size_t len)
{
	uint8_t nonce[WIRE_NONCE];
	struct wire_msg msg;
	size_t end;

	if (len < WIRE_NONCE)
		return;
	memcpy(nonce, p, WIRE_NONCE);
	end = hello_find(p, len, nonce, &msg);
	if (end > len || (end && memcmp(msg.nonce, nonce, WIRE_NONCE) != 0))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	switch (data[0] % 5) {
	case 0:
		try_frames(data + 1, size - 1, &wire_to_host);
		break;
	case 1:
		try_frames(data + 1, size - 1, &wire_to_guest);
		break;
	case 2:
		try_strings(data + 1, size - 1);
		break;
	case 3:
		try_entries(data + 1, size - 1);
		break;
	default:
		try_hello(data + 1, size - 1);
	}
	return 0;
}
