/* What comes through a terminal or a guest agent, before it is bytes again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "guest/armour.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_lines(const uint8_t *data, size_t size)
{
	static struct armour_reader r;
	uint8_t out[ARMOUR_PIECE];
	const char *p = (const char *)data;
	enum armour_news news;
	size_t n = 0;

	memset(&r, 0, sizeof(r));
	r.side = ARMOUR_TO_GUEST;
	while ((news = armour_read(&r, &p, &size, out, &n)) != ARMOUR_NOTHING)
		if (news != ARMOUR_LOST && (n == 0 || n > sizeof(out)))
			abort();
	if (size)
		abort();
}

static void try_head(const uint8_t *data, size_t size)
{
	struct armour_head h, again;
	char text[ARMOUR_HEAD_MAX];
	size_t n = armour_get_head((const char *)data, size, &h);

	if (n > size)
		abort();
	if (n && armour_get_head(text, armour_put_head(&h, text), &again) == 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_lines(data, size);
	try_head(data, size);
	return 0;
}
