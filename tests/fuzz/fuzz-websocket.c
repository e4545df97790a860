/* fuzz-websocket.c - a stream of frames of a websocket. Those with JSON of the client protocol are
 * judged, as those of a page are. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "util/json.h"
#include "web/allow.h"
#include "web/websocket.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1), *p = copy;
	struct ws_frame f;
	struct err e;
	long n;

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	while ((n = ws_decode(p, size, MAX, &f)) > 0) {
		auto_json json_t *frame = NULL;

		if ((size_t)n > size || f.payload.len > MAX || f.payload.p + f.payload.len != p + n)
			abort();
		if (json_parse_object(f.payload, &frame, &e) == 0)
			allow_frame(frame, data[0] & 1, &e);
		p += n;
		size -= (size_t)n;
	}
	free(copy);
	return 0;
}
