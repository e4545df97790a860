/* spec-check.h - what concerns several members of a spec at once. Pure. */
#pragma once

#include <jansson.h>

#include "spec/spec.h"

/* Fills in what follows from other members; j is what s was read from. */
int spec_finish(struct sandbox_spec *s, const json_t *j, struct err *e);

/* After spec_finish. */
int spec_check_vms(const struct sandbox_spec *s, struct err *e);
int spec_check_networks(const struct sandbox_spec *s, struct err *e);
int spec_check_nics(const struct sandbox_spec *s, struct err *e);
