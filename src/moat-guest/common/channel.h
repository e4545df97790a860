/*
 * channel.h - what the host has asked for and is not finished: a command, a file on its way, a
 * directory listing. And the loop that drives them all.
 *
 * How the runner works. One thread, one epoll. A channel with something to send queues for a turn;
 * a turn sends at most one piece per stream. Turns are given in order while the line has room, so
 * no channel starves another, whether its bytes come from a pipe or from a file that is always
 * ready. A channel without credit leaves the queue and stops watching its pipe: the command blocks,
 * and memory stays bounded. Commands have a process of their own each that watches over them
 * (supervise.h); file operations happen right in the loop (files.c).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "runner/line.h"

enum { CHANNEL_BUCKETS = 32, SINKS_MAX = 64 };

/* An fd that the loop watches. events 0: not now. Closing goes through watch_close. */
struct watch {
	int fd;
	uint32_t events;
	void (*ready)(struct watch *w, uint32_t events);
};

struct runner;
struct channel;
struct supervisor;

struct channel_ops {
	/* The line has room and the channel has credit: send one piece. True: more is at hand. */
	bool (*turn)(struct channel *ch);
	void (*credited)(struct channel *ch); /* credit was 0 and no longer is; may be NULL */
	/* From the host; NULL: ignored. */
	void (*data)(struct channel *ch, const uint8_t *p, size_t len);
	void (*eof)(struct channel *ch);
	void (*signal)(struct channel *ch, uint32_t number);
	void (*resize)(struct channel *ch, uint16_t rows, uint16_t cols);
	void (*cancel)(struct channel *ch);  /* the answer comes soon */
	void (*expired)(struct channel *ch); /* the deadline has passed; it is cleared */
	void (*attend)(struct channel *ch);  /* attend_at has come; it is cleared */
	void (*release)(struct channel *ch); /* close and end everything, say nothing */
	/* After the answer was sent: what release does, for those that leave it until then. May be
	 * NULL. */
	void (*bury)(struct channel *ch);
};

struct channel {
	const struct channel_ops *ops;
	struct runner *runner;
	uint32_t id;
	uint32_t credit;              /* bytes of DATA that the host will take */
	uint32_t held;                /* bytes of DATA from the host that are not credited yet */
	uint32_t consumed;            /* of these, how many could be */
	uint64_t deadline, attend_at; /* clock_ms(); 0: none */
	bool queued, closed;
	struct channel *next, *queue_next;
};

/* What background processes still write after their command has ended. */
struct sink {
	struct watch watch;
	struct runner *runner;
};

/* An sshd that begins anew, at the lowest priority until it has come to rest. */
struct sshd_rest {
	uint64_t look_at; /* 0: there is none */
	int pid, priority;
	unsigned looks, calm;
};

struct runner {
	int epoll;
	struct line line;
	struct watch line_in, line_out;
	uint64_t look_again; /* while the host is absent; 0: it is not */
	struct channel *bucket[CHANNEL_BUCKETS];
	unsigned n_channels;
	struct channel *queue, **queue_end;
	struct channel *graves; /* freed when no event can refer to them any more */
	struct sink sink[SINKS_MAX];
	unsigned next_sink;
	struct supervisor *idle, *retired; /* supervise.h */
	unsigned n_idle;
	uint64_t refill_at; /* when another is to be made; 0: not now */
	struct sshd_rest sshd;
	bool leaving;
};

/* Serves until the line is gone or init says so. Takes the line. 0 or an errno. */
int runner_serve(struct line *line);

uint64_t clock_ms(void);

/* Makes a channel of the given size; NULL if there are too many or no memory. */
struct channel *channel_new(
	struct runner *r, uint32_t id, size_t size, const struct channel_ops *ops);
struct channel *channel_find(struct runner *r, uint32_t id);
void channel_want_turn(struct channel *ch);
/* Bytes from the host have gone where they should; flush: say so now. */
void channel_consume(struct channel *ch, size_t n, bool flush);
/* After release, when nothing is left to release, or when ops->bury is to do it. */
void channel_close(struct channel *ch);
void channels_abandon(struct runner *r);

void watch_set(struct runner *r, struct watch *w, uint32_t events);
void watch_close(struct runner *r, struct watch *w);
/* Keeps reading and discarding what background processes still write into w's pipe, so that they do
 * not die of SIGPIPE. Takes the fd. At most SINKS_MAX: the oldest is closed. */
void watch_sink(struct runner *r, struct watch *w);

/* What the host said. False: it makes no sense, the line is lost. */
bool runner_handle(struct runner *r, const struct wire_msg *m, const struct frame *f);
