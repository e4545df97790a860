/* fuzz-compose.c - the text of a compose file, as an eval brings it. The same text stands for every
 * file that it includes. What is accepted is a spec. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "compose/compose.h"
#include "spec/spec.h"
#include "util/auto.h"
#include "util/buf.h"
#include "util/json.h"
#include "util/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int read_same(void *arg, const char *path, char **ret, size_t *ret_len, struct err *e)
{
	const struct bytes *text = arg;
	char *copy;

	if (str_ends(path, "/gone"))
		return err_set(e, ERR_NOT_FOUND, "%s: not found", path);
	copy = malloc(text->len + 1);
	if (!copy)
		return err_oom(e);
	memcpy(copy, text->p, text->len);
	copy[text->len] = '\0';
	*ret = copy;
	*ret_len = text->len;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_json json_t *made = NULL, *env = json_pack("{s:s, s:s}", "A", "a", "HOME", "/root");
	auto_spec struct sandbox_spec *spec = NULL;
	struct bytes text = {data, size};
	struct compose_req req = {.path = "/eval/compose.yaml",
		.directory = "/eval",
		.env = env,
		.closed = size % 2,
		.files = {read_same, &text}};
	struct err e;

	if (compose_translate(&req, &made, &e) < 0)
		return 0;
	if (spec_parse(json_object_get(made, "spec"), &spec, &e) < 0 ||
		!json_is_array(json_object_get(made, "accepted")))
		abort();
	return 0;
}
