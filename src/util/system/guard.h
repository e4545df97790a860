/* guard.h - the guard: a small process between the daemon and a program that it starts. It kills
 * the program when the daemon dies. proc_req.guard starts one; only moat-helper calls this. */
#pragma once

/* `moat-helper guard [--confine NAME|--gentle] LIFELINE_FD -- COMMAND...`: exits with the command's
 * status, or returns one if the command could not be started. */
int guard_main(int argc, char **argv);
