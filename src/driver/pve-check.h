/* pve-check.h - refuses what the Proxmox driver cannot do, before anything is made. Pure, but for
 * the look whether an OVA can be read. */
#pragma once

#include "spec/spec.h"

int pve_check_spec(const struct sandbox_spec *spec, struct err *e);
