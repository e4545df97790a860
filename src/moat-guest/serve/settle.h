/* settle.h - making the runner at home in the guest before it serves. Everything here is best
 * effort: a guest where it fails can still be served. */
#pragma once

#include <stdbool.h>

/* own_life: not tied to whoever started it, so leave that service's cgroup and mount namespace. */
void settle(bool own_life);
