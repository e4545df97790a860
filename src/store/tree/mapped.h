/* mapped.h - what root starts becomes root of a user namespace. For the program moat-disk, which
 * has one thread. */
#pragma once

#include "util/err.h"

/* Where the directories are for the program: MAPPED_PLACE/work and MAPPED_PLACE/storage. */
#define MAPPED_PLACE "/mnt"

/*
 * Runs argv as root of a user namespace whose users no account of the machine has, in mount, pid
 * and IPC namespaces of its own, and ends with its exit status. The two directories become that
 * root's, and are visible to it wherever they are. Returns on failure only.
 */
int mapped_run(const char *work, const char *storage, char *const *argv, struct err *e);
