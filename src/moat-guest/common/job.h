/*
 * job.h - an operation that the host has asked for and that is not finished: a command, a file
 * being read or written, a directory listing. And the loop that drives them all.
 *
 * How the runner works. It has one thread and one epoll. A job that has something to send joins
 * a queue. While the line has room, the first of the queue sends at most one piece of each stream,
 * and joins again at the end if it has more. So no job starves another, whether its bytes come
 * from a pipe or from a file that is always ready. A job without credit leaves the queue and
 * stops watching its pipe: then the command blocks, and memory stays bounded. Each command runs
 * under a process of its own, a supervisor (command/supervisor.h; command/exec.h names the files
 * that start a command). File operations happen right in the loop (files/files.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/types.h>

#include "moat-guest/common/uplink.h"

enum { JOB_BUCKETS = 32, SINKS_MAX = 64 };

/* An fd that the loop watches. events 0: not now. Closing goes through watch_close. */
struct watch {
	int fd;
	uint32_t events;
	void (*ready)(struct watch *w, uint32_t events);
};

struct runner;
struct job;

struct job_ops {
	/* The line has room and the job has credit: send one piece. True: there is more. */
	bool (*send_some)(struct job *job);
	void (*credited)(struct job *job); /* credit was 0 and no longer is; may be NULL */
	/* Messages of the host. NULL: the message is ignored. */
	void (*data)(struct job *job, const uint8_t *p, size_t len);
	void (*eof)(struct job *job);
	void (*signal)(struct job *job, uint32_t number);
	void (*resize)(struct job *job, uint16_t rows, uint16_t cols);
	void (*cancel)(struct job *job);  /* end the operation, and answer soon */
	void (*expired)(struct job *job); /* the deadline has passed; it is cleared */
	void (*release)(struct job *job); /* close and end everything, say nothing */
};

struct job {
	const struct job_ops *ops;
	struct runner *runner;
	uint32_t id;
	uint32_t credit;   /* bytes of DATA that the host will take */
	uint32_t held;     /* bytes of DATA from the host that are not credited yet */
	uint32_t consumed; /* of these, how many could be */
	uint64_t deadline; /* clock_ms(); 0: none */
	bool queued, closed;
	struct job *next, *queue_next;
};

/* A pipe into which background processes may still write after their command has ended. */
struct sink {
	struct watch watch;
	struct runner *runner;
};

/* The guest's sshd, which restarts with new host keys. It has the lowest priority until it is
 * idle. */
struct sshd_rest {
	uint64_t look_at; /* clock_ms() of the next look at it; 0: there is no such sshd */
	int pid, priority;
	unsigned looks, calm;
};

/* The process above a command; see command/supervisor.h. */
struct supervisor {
	int socket; /* our end; -1: there is no supervisor */
	pid_t pid;
};

struct runner {
	int epoll;
	struct uplink uplink;
	struct watch uplink_in, uplink_out;
	uint64_t look_again; /* clock_ms(), while the host is absent; 0: it is not */
	struct job *bucket[JOB_BUCKETS];
	unsigned n_jobs;
	struct job *queue, **queue_end;
	struct job *graves; /* freed when no event can refer to them any more */
	struct sink sink[SINKS_MAX];
	unsigned next_sink;
	struct supervisor idle_supervisor; /* waits for the next command, if there is one */
	struct sshd_rest sshd;
	bool leaving;
};

/* Serves until the line is gone, or init sends SIGTERM. Takes the uplink. 0 or an errno. */
int runner_serve(struct uplink *uplink);

uint64_t clock_ms(void);

/* Makes a job of the given size; NULL if there are too many or no memory. */
struct job *job_new(struct runner *r, uint32_t id, size_t size, const struct job_ops *ops);
struct job *job_find(struct runner *r, uint32_t id);
void job_wants_to_send(struct job *job);
/* n bytes from the host are dealt with and will be credited; flush: now, not when more are. */
void job_consume(struct job *job, size_t n, bool flush);
/* Call it after ops->release, or when there is nothing to release. */
void job_close(struct job *job);
void jobs_abandon(struct runner *r);

void watch_set(struct runner *r, struct watch *w, uint32_t events);
void watch_close(struct runner *r, struct watch *w);
/* Makes a sink of w's pipe: what background processes write into it is read and discarded, so that
 * they do not die of SIGPIPE. Takes the fd. With more than SINKS_MAX sinks the oldest is closed. */
void watch_sink(struct runner *r, struct watch *w);

/* Handles a message of the host. False: it makes no sense, and the line is lost. */
bool runner_handle(struct runner *r, const struct wire_msg *m, const struct frame *f);
