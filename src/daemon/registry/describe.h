/* describe.h - sandboxes and their VMs as the protocol shows them. Any thread. */
#pragma once

#include "daemon/registry/registry.h"

const char *sandbox_state_name(enum sandbox_state state);
/* The answer to whoever made the sandbox. */
int sandbox_made_to_json(
	struct sandbox *sb, struct driver_sandbox *driven, json_t **ret, struct err *e);
/* A SANDBOX object of the protocol; under the registry's lock. */
json_t *sandbox_to_json_locked(struct sandbox *sb);
