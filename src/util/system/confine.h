/* confine.h - what a process gives up before a guest gets to it. For one with a single thread. */
#pragma once

#include <sys/types.h>

enum { CONFINE_NOBODY = 65534 }; /* the user, and the group */

/* New namespaces (CLONE_NEW...), within a user namespace if we are not root. -1: not possible here.
 */
int confine_namespaces(int flags);
/* Root becomes nobody, with this group besides, and no capability is left. -1 and errno. */
int confine_rights(gid_t group);
