/* check-nets.h - whether the networks of a spec fit together, and its NICs to them. Pure. */
#pragma once

#include "spec/spec.h"

/* s has been through spec_finish(). The NICs are checked against networks that are right. */
int spec_check_networks(const struct sandbox_spec *s, struct err *e);
int spec_check_nics(const struct sandbox_spec *s, struct err *e);
