/* check.h - refuses specs that the Proxmox driver cannot fulfil, before anything is made. Pure,
 * except that it looks whether an OVA can be read; any thread. */
#pragma once

#include "spec/spec.h"

/* Whether the sandbox may reach nothing but its own networks: "isolated" in the spec's "native". */
bool pve_is_isolated(const struct sandbox_spec *spec);
/* Whether any NIC is in a network of the sandbox's own; otherwise none of these is made. */
bool pve_uses_networks(const struct sandbox_spec *spec);
int pve_check_spec(const struct sandbox_spec *spec, struct err *e);
