/*
 * runner-peer.h - a host for the tests of the runner: starts the real program on a socketpair and
 * speaks the wire with it. Single-threaded; every wait has a limit, after which the test program
 * ends with a message.
 */
#pragma once

#include <sys/types.h>

#include "wire/wire.h"

enum { PATIENCE_MS = 60000 }; /* for what comes at once, except on a busy machine */

struct peer {
	int fd;
	pid_t pid; /* of the runner */
	uint8_t *in;
	size_t in_len, in_cap;
	uint32_t next_id;
};

struct peer_bytes {
	char *p; /* a NUL follows */
	size_t len, cap;
};

/* One operation and what came of it. */
struct job {
	/* request */
	const char *const *argv, *const *env; /* EXEC */
	const char *user, *cwd, *path, *target;
	struct wire_msg msg; /* type, flags, timeout_ms, max, rows, cols, mode */
	const void *input;
	size_t input_len;
	bool keep_input_open;
	/* answer */
	uint32_t id;
	struct wire_msg end;
	struct peer_bytes out, err, message;
	size_t sent, credit; /* of input */
	bool eof_sent, ended;
};

void peer_start(struct peer *p);     /* and exchanges HELLO */
void peer_start_raw(struct peer *p); /* without HELLO */
void peer_stop(struct peer *p);      /* closes the socket and waits for the runner's end */
void peer_send(struct peer *p, const struct wire_msg *m, const void *body, size_t len);
void peer_write(struct peer *p, const void *bytes, size_t len);
/* Reads the next message; false: none came in time. The body is valid until the next call. */
bool peer_next(struct peer *p, int timeout_ms, struct wire_msg *ret, struct peer_bytes *ret_body);
/* Sends HELLO and skips everything before its answer; false if none came. */
bool peer_hello(struct peer *p, int timeout_ms);

void peer_append(struct peer_bytes *b, struct peer_bytes more);

void job_start(struct peer *p, struct job *j);
/* Sends input, reads and credits output, until all jobs have ended. */
void jobs_finish(struct peer *p, struct job *jobs, size_t n);
/* Starts and finishes one job, which must be freed afterwards. */
void job_run(struct peer *p, struct job *j);
void job_free(struct job *j);
void job_order(
	struct peer *p, struct job *j, const struct wire_msg *m); /* sends m with the job's id */

uint64_t now_ms(void);
void pause_ms(int ms);
/* Polls until is_so returns true; false if it did not in time. */
bool wait_until(bool (*is_so)(const void *arg), const void *arg);
bool process_gone(const void *pid); /* const pid_t * */
/* Finds at most n living children of a process and returns their number. The runner's are its
 * supervisors. */
int process_children(pid_t parent, pid_t *ret, int n);

#define ARGV(...)  ((const char *const[]){__VA_ARGS__, NULL})
#define SH(script) ARGV("/bin/sh", "-c", script)
