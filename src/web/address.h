/*
 * address.h - where the console of this user is: a file of the state directory that only its user
 * may read, with the address and its token. It is locked while the console runs, so that a second
 * one finds the first; what a killed one has left in it means nothing.
 */
#pragma once

#include "util/system/paths.h"
#include "util/thread/op.h"

enum { ADDRESS_MAX = 128 };

/* Takes the file, with 1; or returns 0 and the address of the console that has it, which may have
 * to be waited for while that one starts. look_only: the file is never taken, and 1 means that no
 * console runs. */
int address_take(const struct op *op, const struct paths *paths, bool look_only, int *ret_fd,
	char ret[ADDRESS_MAX], struct err *e);
int address_note(int fd, const char *address, struct err *e);
/* The console ends. */
void address_leave(int fd);
