/* enter.h - a program gets a directory as its root. For the program moat-disk, which has one
 * thread. */
#pragma once

#include "util/err.h"

/*
 * Replaces this process by argv, with the directory as its root and nothing of the host's files
 * below, a /proc, a small /dev, no terminal, and no more capabilities than installing packages
 * takes. Of open files it keeps stdin, stdout and stderr, which must be pipes: others could be
 * opened once more, to write. In a mount and pid namespace of our own. Returns on failure only.
 */
int enter_root(const char *dir, char *const *argv, struct err *e);
