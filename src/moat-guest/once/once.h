/*
 * once.h - one operation, for a host that has no line to us but only an agent that starts programs.
 *
 * `moat-guest once ID [OLD...]` reads a head (guest/armour.h) and, in base64 or in files ID.0, ID.1
 * and so on of the spool (runner/disc.h), the frames that a host would send: a request, its input.
 *It prints a head and what a runner would have answered. The operation is done by a process of its
 *own, which outlives us: what it has to say is kept in the spool under ID, until a later call names
 *it as OLD. So whoever did not get the answer asks again with the same ID, and gets it, now or when
 *there is one, and nothing is done twice.
 *
 *	once ID [OLD...]     does it, unless it was done or is being done; gives its result
 *	fetch ID             gives the result, waiting for it; nothing is done
 *	kill ID              ends it with all it has started; gives the result
 *	forget ID...         removes results
 *
 * Exit status: 0 with a result, ONCE_UNKNOWN if there is no such ID or its result is lost.
 */
#pragma once

#include <stdbool.h>

enum { ONCE_BAD = 2, ONCE_UNKNOWN = 3, ONCE_INLINE_MAX = 192 * 1024 };

/* argv[1] is one of the words above. Returns the exit status. */
int once_main(int argc, char **argv);

/* The process that does it. request: frames; taken. fds: the result's directory and its lock. */
struct once_job {
	unsigned char *request;
	unsigned long len;
	int dir, lock;
	bool mapped; /* the request is a file's */
};
void once_job_drop(struct once_job *job);
_Noreturn void once_work(struct once_job *job);
