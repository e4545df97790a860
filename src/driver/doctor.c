#include "driver/doctor.h"

#include <stdio.h>

void doctor_say(
	const struct doctor *d, const char *name, int state, const char *detail, const char *fix)
{
	struct check c = {.name = name, .state = state};

	snprintf(c.detail, sizeof(c.detail), "%s", detail);
	snprintf(c.fix, sizeof(c.fix), "%s", state == CHECK_OK ? "" : fix);
	d->say(d->arg, &c);
}

void doctor_runners(const struct doctor *d, const struct driver_env *env, const char *without)
{
	for (unsigned i = 0; i < RUNNERS; i++) {
		const char *path = env->runners.path[i];
		char name[40], detail[200], fix[200];

		snprintf(name, sizeof(name), "runner %s", runner_arch[i]);
		snprintf(detail, sizeof(detail), "moat-guest-%s is missing: %s", runner_arch[i],
			without);
		snprintf(fix, sizeof(fix), "apt-get install %s, then build moat again",
			runner_packages[i]);
		doctor_say(d, name, path ? CHECK_OK : CHECK_WARN, path ? path : detail, fix);
	}
}
