/* exit-code.h - the exit codes of moat. Only types. */
#pragma once

/* Programs rely on these; moat.1 documents them. */
enum exit_code {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_NOT_FOUND = 3,
	EXIT_UNAVAILABLE = 4,
	EXIT_TIMED_OUT = 124, /* exec: the command's time was up */
	EXIT_OWN_ERROR = 125, /* exec, shell: moat failed, not the command */
	EXIT_INTERRUPTED = 130,
};
