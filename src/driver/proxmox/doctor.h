/* doctor.h - looks, through the API, whether servers have what moat needs; see `doctor` in
 * driver.h. Any thread. */
#pragma once

#include "driver/driver.h"

int pve_doctor(struct driver *base, const struct op *op, const json_t *access,
	void (*say)(void *arg, const struct check *c), void *arg, struct err *e);
