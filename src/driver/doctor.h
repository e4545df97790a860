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
/* Says which runners are installed. without: what happens in guests for which there is none. */
void doctor_runners(const struct doctor *d, const struct driver_env *env, const char *without);
