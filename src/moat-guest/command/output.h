/*
 * output.h - what a command writes, on its way to the host.
 *
 * Without capture each piece goes out as it comes, within the job's credit. With capture the
 * tails are kept in rings, and sent when the command has ended.
 */
#pragma once

#include "moat-guest/command/exec.h"

void output_init(struct exec *x, uint64_t capture_max);
/* Watches the pipes, or not: reading follows the credit, but for capture. Call it when either
 * changes. */
void output_watch(struct exec *x);
/* Sends a piece of each stream; with capture, all of stdout before stderr. */
void output_send_some(struct exec *x);
/* Whether there is something to send. */
bool output_waits(const struct exec *x);
/* The command has ended. What is in the pipes now was written before; nothing that comes later is
 * waited for. */
void output_ended(struct exec *x);
/* Background processes may still write: their output is thrown away, so that they do not die of
 * SIGPIPE. */
void output_discard(struct exec *x);
void output_close(struct exec *x); /* may be called again */
