/* ops.h - the operations of a guest over channels of a runner's line. Any thread. */
#pragma once

#include "guestlink/guest.h"

extern const struct guest_ops line_ops;
