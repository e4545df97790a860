/* process.h - prepares the runner's process before it serves: limits, signals, cgroup. All of this
 * is best effort: a guest where it fails can still be served. */
#pragma once

#include <stdbool.h>

/* own_life: the runner outlives the service that started it, and leaves its cgroup and mount
 * namespace. */
void process_prepare(bool own_life);
