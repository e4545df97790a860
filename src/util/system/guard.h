/* guard.h - the guard: a small process between the daemon and a program that it starts. It kills
 * the program when the daemon dies. proc_req.guard starts one; only moat-helper calls this. */
#pragma once

/* The guard's exit status if the command could not be run; stderr says why. Not 127, which a
 * command may have as its own. */
enum { GUARD_NOT_RUN = 123 };

/* `moat-helper guard [--confine NAME|--gentle] LIFELINE_FD -- COMMAND...`: exits with the command's
 * status, or returns one if the command could not be started. */
int guard_main(int argc, char **argv);
