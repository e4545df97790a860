/* rules.h - what a network lets out, a text for each rule, from the daemon's answer to `net.show`.
 * Pure. */
#pragma once

#include <jansson.h>
#include <stddef.h>

/* "deny", "open", ..., or "allow" for a network with a list. */
const char *rules_policy(const json_t *vnet);
/* The number of entries of its list. */
unsigned rules_count(const json_t *vnet);
/* Writes one: a name, a network, or "port 443". A longer one is cut. */
void rules_text(const json_t *vnet, unsigned i, char *out, size_t size);
