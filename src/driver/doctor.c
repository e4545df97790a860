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
