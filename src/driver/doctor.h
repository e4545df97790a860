/* doctor.h - what the drivers' checks for `moat doctor` share. Any thread. */
#pragma once

#include "driver/driver.h"

/* Who is told of each check. */
struct doctor {
	void (*say)(void *arg, const struct check *c);
	void *arg;
};

/* fix: a command, or ""; left out if all is well. */
void doctor_say(
	const struct doctor *d, const char *name, int state, const char *detail, const char *fix);
