/* check-services.h - checks what a spec says of VMs made of container images. Pure. */
#pragma once

#include "spec/spec.h"

int spec_check_services(const struct sandbox_spec *s, struct err *e);
