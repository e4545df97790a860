/* pve-check.h - refuses what the Proxmox driver cannot do, before anything is made. Pure, but for
 * the look whether an OVA can be read. */
#pragma once

#include "spec/spec.h"

/* Whether nothing of the sandbox may get anywhere but to its own networks: native.isolated. */
bool pve_is_isolated(const struct sandbox_spec *spec);
int pve_check_spec(const struct sandbox_spec *spec, struct err *e);
