/* doctor.h - checks of what belongs to no driver: the tools that image recipes need. Any thread. */
#pragma once

#include "driver/driver.h"

/* Checks for the tools in RECIPE_DIR/packages (lines "tool package recipe..."). Says one line if
 * all are there, else one for each that is missing. */
int doctor_images(const char *recipe_dir, void (*say)(void *arg, const struct check *c), void *arg,
	struct err *e);
