/*
 * job.h - a command to start, in memory that the runner shares with one supervisor. The runner
 * writes it; the supervisor, and the process that becomes the command, read it and write what came
 * of it. The mapping is older than the supervisor, so that pointers into it mean the same to all.
 */
#pragma once

#include <stdint.h>

#include "runner/users.h"

enum {
	JOB_PLACES = 8, /* for processes that wait to become the command: so many in a row start
			 * at once */
	JOB_NOBODY = -1,
};

enum job_stage {
	JOB_RUNS,
	/* Where a command failed that never ran; in the order of WIRE_NO_USER and what follows. */
	JOB_NO_USER,
	JOB_NO_CWD,
	JOB_NO_EXEC,
};

enum job_go {
	JOB_WAIT,
	JOB_GO,
	JOB_GO_WITH_INPUT,
	JOB_VACANT, /* nobody waits there: no process could be made */
};

/* How a command has ended. */
struct report {
	int32_t stage; /* enum job_stage */
	int32_t value; /* JOB_RUNS: as from wait(2). Otherwise an errno */
	int32_t alone; /* no process is left of it, and the supervisor can be used again */
};

/* What the runner and the others write while both look at it. */
struct job_state {
	int32_t pid;          /* of the command, its session and its process group; 0: not yet */
	int32_t early_signal; /* for a command that has no pid yet */
	int32_t started;      /* the command's process has seen that it may go */
	int32_t stage, error; /* enum job_stage; errno */
	int32_t place;        /* whose process it is; JOB_NOBODY: no command runs */
	int32_t reported;     /* the report is complete */
	struct report report;
	uint32_t
		go[JOB_PLACES]; /* enum job_go; a futex, on which the process in that place waits */
};

struct job {
	size_t size; /* of the mapping */
	volatile struct job_state state;

	char **argv, **env; /* NULL at the end */
	size_t strings;     /* bytes in both */
	const char *cwd;    /* empty: the home, or "/" if that cannot be entered */
	struct user user;
	bool tty; /* the input is a terminal, to become the controlling one */

	char *rest[]; /* what the pointers point to */
};

struct job *job_map(size_t size); /* NULL and errno */
/* For the runner: lets the process in a place go, false if the place is vacant, and for that
 * process: waits until it may. */
bool job_go(struct job *job, unsigned place, enum job_go go);
enum job_go job_wait(struct job *job, unsigned place);
/* For the supervisor: nobody will wait there. False: somebody was told to go. */
bool job_vacate(struct job *job, unsigned place);
void job_unmap(struct job *job);
