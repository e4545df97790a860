/* listing.h - what listings of sandboxes show, once and live. */
#pragma once

#include "cli/cli.h"

/* A SANDBOX's state in words: one that runs is "dead" if all its VMs are dead, "part dead" if some
 * are. */
const char *listing_state(const json_t *sb);
enum colour listing_colour(const char *state);
/* The labels in the order of what a watcher looks for, without the name, which has a column of its
 * own. The caller releases them. */
json_t *listing_labels(const json_t *sb);
/* Whether a sandbox has all of these labels. */
bool listing_wants(const json_t *sb, const json_t *wanted);
