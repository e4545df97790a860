/* fuzz-json.c - JSON of clients, read as handlers read it; and any text made into JSON. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "util/auto.h"
#include "util/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_object(struct bytes in)
{
	auto_json json_t *j = NULL, *again = NULL;
	auto_free char *text = NULL;
	const char *op = NULL, *sandbox = NULL;
	json_t *args = NULL, *list = NULL;
	json_int_t id = 0;
	int flag = 0;
	double number = 0;
	struct err e;

	if (json_parse_object(in, &j, &e) < 0) {
		if (e.kind != ERR_INVALID)
			abort();
		return;
	}
	if (json_get(j, "request", &e, "{s:I, s:s, s?o}", "id", &id, "op", &op, "args", &args) ==
			0 &&
		!op)
		abort();
	if (json_get(args, "args", &e, "{s:s, s?b, s?F, s?o}", "sandbox", &sandbox, "flag", &flag,
		    "number", &number, "list", &list) < 0 &&
		(e.kind != ERR_INVALID || strncmp(e.msg, "args", 4) != 0))
		abort();
	if (json_to_str(j, &text, &e) < 0 ||
		json_parse_object((struct bytes){(uint8_t *)text, strlen(text)}, &again, &e) < 0 ||
		!json_equal(j, again))
		abort();
}

static void try_text(struct bytes in)
{
	auto_free char *text = malloc(in.len + 1);
	auto_json json_t *j = NULL;

	if (!text)
		return;
	if (in.len)
		memcpy(text, in.p, in.len);
	text[in.len] = 0;
	j = json_text(text);
	if (!json_is_string(j)) /* any bytes become a string */
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes in = {data, size};

	try_object(in);
	try_text(in);
	return 0;
}
