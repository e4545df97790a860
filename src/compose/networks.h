/* networks.h - the networks of a compose file become vnets of the spec. */
#pragma once

#include "compose/load.h"

/*
 * After service_to_vm of all services: the member `networks` of the spec, and for the user what
 * each network leads to ("open", "allow", "deny").
 */
int networks_to_spec(struct model *m, json_t **ret, json_t **ret_leads, struct err *e);
