/*
 * once.h - one operation, for a host that has no line to the guest, only an agent that
 * starts programs.
 *
 * `moat-guest once ID [OLD...]` reads a head (wire/ascii.h) and, in base64 or in files ID.0, ID.1
 * and so on of the spool (moat-guest/once/disc.h), the frames that a host would send: a request,
 * its input. It prints a head and what a runner would have answered. A worker, a process of its
 * own, does the operation and outlives the call. The result is kept in the spool under ID, until a
 * later call names it as OLD. So a host that did not get the answer asks again with the same ID: it
 * gets the result, now or when there is one, and nothing is done twice.
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

enum { ONCE_INLINE_MAX = 192 * 1024 };

/* argv[1] is one of the words above. Returns the exit status. */
int once_main(int argc, char **argv);

/* What the worker gets. */
struct once_request {
	unsigned char *request; /* frames */
	unsigned long len;
	int dir, lock; /* the result's directory, and the lock in it */
	bool mapped;   /* the request is a mapping of a file */
};
void once_request_drop(struct once_request *rq);
_Noreturn void once_work(struct once_request *rq);
