/* templates.h - lists the templates on servers, and removes those that moat made; see `images` in
 * driver.h. Any thread. */
#pragma once

#include "driver/driver.h"

int pve_images(
	struct driver *base, const struct op *op, const json_t *args, json_t **ret, struct err *e);
