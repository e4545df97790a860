/* stamp.h - finds the processes of a sandbox by their command lines. Any thread. */
#pragma once

#include "util/thread/op.h"

/* Ends all processes of ours whose command line carries this sandbox's stamp. *ret_found: how many
 * there were. */
int qemu_kill_stamped(const struct op *op, const char *sandbox, unsigned *ret_found, struct err *e);
