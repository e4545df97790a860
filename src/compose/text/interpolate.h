/* interpolate.h - variables in the texts of a compose file: $NAME, ${NAME:-default}. Pure. */
#pragma once

#include <jansson.h>

#include "util/buf.h"

struct interpolation {
	const json_t *env; /* object of texts */
	json_t *missing;   /* object: its keys are names that have no value and no default */
	size_t made;       /* bytes of all results, which are bounded together */
};

/* One text, which the caller frees. */
int interpolate(struct interpolation *ip, const char *text, char **ret, struct err *e);
/* All texts in j, but no names of members; in place. Errors name the place below at. */
int interpolate_all(struct interpolation *ip, json_t *j, const char *at, struct err *e);
