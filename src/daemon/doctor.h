/* doctor.h - checks of what is not a driver's: the tools that image recipes need. */
#pragma once

#include "driver/driver.h"

/* Reads RECIPE_DIR/packages (lines "tool package recipe..."); says one line if all are there, else
 * one for each that is missing. */
int doctor_images(const char *recipe_dir, void (*say)(void *arg, const struct check *c), void *arg,
	struct err *e);
