/* guard.h - the process between the daemon and what it starts; see proc_req.guard. */
#pragma once

/* `moat guard [--isolate] LIFELINE_FD -- COMMAND...`: returns the exit status for main. */
int guard_main(int argc, char **argv);
