/*
 * signals.h - SIGINT, SIGTERM and SIGHUP as something to wait for, and the terminal's raw mode. The
 * first signal asks; the second ends the program at once, whatever it is blocked in, with the
 * terminal restored. The handlers need statics: these are the command line's only ones.
 */
#pragma once

#include <stdbool.h>

#include "util/err.h"

/* From now on the first signal is only counted. */
int signals_setup(struct err *e);
/* How many have come. */
unsigned signals_seen(void);
/* Readable once one has come, and for ever after. -1 before signals_setup. */
int signals_fd(void);
/* Readable after the terminal's size changed, until signals_take_resize(). */
int signals_resize_fd(void);
void signals_take_resize(void);

/* Terminals in raw mode are restored by tty_restore(), at exit and by the second signal. */
int tty_make_raw(int fd, struct err *e);
void tty_restore(void);
/* The size of the terminal that we have; false (and 24 by 80) if there is none. */
bool tty_size(unsigned *ret_rows, unsigned *ret_cols);
