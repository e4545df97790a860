/* fuzz-ascii.c - ASCII framing, as it comes through a terminal or a guest agent. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/ascii.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_lines(const uint8_t *data, size_t size)
{
	static struct ascii_reader r;
	uint8_t out[ASCII_PIECE];
	const char *p = (const char *)data;
	enum ascii_event event;
	size_t n = 0;

	memset(&r, 0, sizeof(r));
	r.side = ASCII_TO_GUEST;
	while ((event = ascii_read(&r, &p, &size, out, &n)) != ASCII_NOTHING)
		if (event != ASCII_LOST && (n == 0 || n > sizeof(out)))
			abort();
	if (size)
		abort();
}

static void try_head(const uint8_t *data, size_t size)
{
	struct ascii_head h, again;
	char text[ASCII_HEAD_MAX];
	size_t n = ascii_get_head((const char *)data, size, &h);

	if (n > size)
		abort();
	if (n && ascii_get_head(text, ascii_put_head(&h, text), &again) == 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_lines(data, size);
	try_head(data, size);
	return 0;
}
