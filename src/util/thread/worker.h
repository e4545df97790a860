/*
 * worker.h - threads for work that may be over in a millisecond: to make and to end one would be a
 * good part of that. A thread that has nothing to do waits a while for more before it ends.
 */
#pragma once

/* Has a thread do it, one that waits or a new one; nobody waits for its end. 0 or an errno. */
int worker_run(void (*work)(void *arg), void *arg);
