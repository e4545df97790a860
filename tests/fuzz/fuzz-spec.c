/* fuzz-spec.c - the text of a spec, as a client sends it. An accepted spec must have a normal form,
 * and that must parse to the same spec. */
#include <stdint.h>
#include <stdlib.h>

#include "spec/spec.h"
#include "spec/yaml.h"
#include "util/auto.h"
#include "util/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_json json_t *j = NULL, *normal = NULL, *again = NULL;
	auto_spec struct sandbox_spec *spec = NULL, *second = NULL;
	size_t order[SPEC_VMS_MAX];
	struct err e;

	if (spec_text_to_json((struct bytes){data, size}, &j, &e) < 0 ||
		spec_parse(j, &spec, &e) < 0)
		return 0;
	spec_start_order(spec, order);
	if (spec_to_json(spec, &normal, &e) < 0 || spec_parse(normal, &second, &e) < 0 ||
		spec_to_json(second, &again, &e) < 0 || !json_equal(normal, again))
		abort();
	return 0;
}
