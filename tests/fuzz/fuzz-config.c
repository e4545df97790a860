/* fuzz-config.c - the configuration file. An accepted file is within the limits, and parses again
 * to the same configuration. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/config.h"
#include "util/auto.h"
#include "util/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int same(const struct config *a, const struct config *b)
{
	return strcmp(a->accel, b->accel) == 0 && strcmp(a->qemu, b->qemu) == 0 &&
	       strcmp(a->log_level, b->log_level) == 0 && a->idle_exit == b->idle_exit &&
	       a->boot_timeout == b->boot_timeout && a->memory_keep_mb == b->memory_keep_mb;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config c = {0}, again = {0};
	auto_free char *text = NULL;
	auto_json json_t *j = NULL;
	struct err e;

	if (config_parse((struct bytes){data, size}, &c, &e) < 0)
		return 0;
	if (!c.accel || !c.qemu || !c.log_level || c.idle_exit < 0 || c.boot_timeout <= 0)
		abort();
	j = config_to_json(&c);
	if (!j || json_to_str(j, &text, &e) < 0 ||
		config_parse((struct bytes){(uint8_t *)text, strlen(text)}, &again, &e) < 0 ||
		!same(&c, &again))
		abort();
	config_free(&c);
	config_free(&again);
	return 0;
}
