/* fuzz-input.c - actions of clients: text, names of keys, places. What is planned is bounded. */
#include <stdint.h>
#include <stdlib.h>

#include "screen/gestures.h"
#include "util/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_json json_t *j = NULL;
	auto_steps struct steps steps = {0}, ups = {0};
	struct pointer pointer = {0};
	struct canvas of = {1366, 768};
	struct err e;

	if (json_parse_object((struct bytes){data, size}, &j, &e) < 0)
		return 0;
	if (gestures_plan(json_object_get(j, "actions"), &of, &pointer, &steps, &e) == 0 &&
		pointer.known && (pointer.x >= POSITION_ONE || pointer.y >= POSITION_ONE))
		abort();
	if (steps_release(&steps, &ups, &e) < 0)
		abort();
	return 0;
}
