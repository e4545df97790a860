/*
 * signals.h - waiting for SIGINT, SIGTERM and SIGHUP, and the terminal's raw mode. The first signal
 * only asks to end; the second ends the program at once, whatever it is blocked in, after restoring
 * the terminal. The handlers need static variables, the only ones of the command line.
 */
#pragma once

#include <stdbool.h>

#include "util/err.h"

/* Installs the handlers: from now on the first signal is only counted. */
int signals_setup(struct err *e);
/* How many signals have come. */
unsigned signals_seen(void);
/* Readable from the first signal on, for ever. -1 before signals_setup. */
int signals_fd(void);
/* Readable after the terminal's size changed, until signals_take_resize(). */
int signals_resize_fd(void);
void signals_take_resize(void);

/* Terminals in raw mode are restored by tty_restore(), at exit and by the second signal. */
int tty_make_raw(int fd, struct err *e);
void tty_restore(void);
/* The size of our terminal; false, and 24 by 80, if there is none. */
bool tty_size(unsigned *ret_rows, unsigned *ret_cols);
