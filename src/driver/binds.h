/* binds.h - files and directories of the host that a service gets a copy of. Reads the host's
 * files, as the user whose daemon this is. */
#pragma once

#include "spec/spec.h"
#include "util/buf.h"

enum { BINDS_BYTES_MAX = 64 << 20, BINDS_FILES_MAX = 10000 };

/* Adds them as cpio entries, without the end of an archive. ERR_LIMIT: a bind is too large. */
int binds_pack(const struct service_spec *s, struct buf *ret, struct err *e);
