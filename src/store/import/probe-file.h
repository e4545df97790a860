/* probe-file.h - finds out which format of disk image an open file has. Any thread. */
#pragma once

#include "store/import/probe.h"

/* As probe_disk. name: the file's own, for its ending. */
int probe_file(int fd, const char *name, enum probe_kind *ret, struct err *e);
