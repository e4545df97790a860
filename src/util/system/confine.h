/* confine.h - a process gives up its rights before a guest can reach it. Call it before starting a
 * thread. */
#pragma once

#include <sys/types.h>

enum { CONFINE_NOBODY = 65534 }; /* user and group "nobody" */

/* Enters new namespaces (CLONE_NEW...), in a new user namespace if we are not root. -1: not
 * possible here. */
int confine_namespaces(int flags);
/* Changes root to nobody, with `group` as the only other group, and drops all capabilities. -1 and
 * errno. */
int confine_rights(gid_t group);
