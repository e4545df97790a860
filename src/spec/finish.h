/* finish.h - fills in what follows from several members of a spec. Pure. */
#pragma once

#include <jansson.h>

#include "spec/spec.h"

/* s was read from j by shape_read(), which knows no more than one member at a time. */
int spec_finish(struct sandbox_spec *s, const json_t *j, struct err *e);
