#include "daemon/stale.h"

#include <time.h>

/* Nobody has used it for so long: QEMU or moat has been updated meanwhile. */
#define STALE_SECONDS (30 * 24 * 3600)

static bool is_stale(void *arg, const json_t *about)
{
	struct daemon *d = arg;
	auto_image struct image *image = NULL;
	const char *digest = json_string_value(json_object_get(about, "image"));
	json_int_t used = json_integer_value(json_object_get(about, "used"));
	struct err e;

	if (!digest)
		return true;
	if (store_find(d->store, digest, &image, &e) < 0 && e.kind == ERR_NOT_FOUND)
		return true;
	return used + STALE_SECONDS < time(NULL);
}

int templates_drop_stale(
	struct daemon *d, void (*said)(void *arg, const char *text), void *arg, struct err *e)
{
	if (!d->templates)
		return 0;
	return templates_sweep(d->templates, is_stale, d, said, arg, e);
}
