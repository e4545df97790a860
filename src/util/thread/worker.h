/*
 * worker.h - threads for work that may be over in a millisecond. Starting and ending a thread would
 * be a good part of that, so a thread without work waits a while for more. Any thread.
 */
#pragma once

#include "util/err.h"

/* Has a thread do the work, an idle one or a new one. Nobody waits for its end. */
int worker_run(void (*work)(void *arg), void *arg, struct err *e);
