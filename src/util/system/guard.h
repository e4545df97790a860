/* guard.h - the process between the daemon and what it starts; see proc_req.guard. */
#pragma once

/* `moat guard [--isolate|--gentle] LIFELINE_FD -- COMMAND...`: ends with its status,
 * or returns one if it could not start. */
int guard_main(int argc, char **argv);
