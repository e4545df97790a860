#include "moat-guest/common/job.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { CREDIT_STEP = WIRE_WINDOW / 4 };

struct job *job_find(struct runner *r, uint32_t id)
{
	struct job *job = r->bucket[id % JOB_BUCKETS];

	while (job && job->id != id)
		job = job->next;
	return job;
}

struct job *job_new(struct runner *r, uint32_t id, size_t size, const struct job_ops *ops)
{
	struct job **bucket = &r->bucket[id % JOB_BUCKETS];
	struct job *job;

	if (r->n_jobs == WIRE_CHANNELS_MAX) {
		errno = EAGAIN;
		return NULL;
	}
	job = calloc(1, size);
	if (!job)
		return NULL;
	job->ops = ops;
	job->runner = r;
	job->id = id;
	job->credit = WIRE_WINDOW;
	job->next = *bucket;
	*bucket = job;
	r->n_jobs++;
	return job;
}

void job_wants_to_send(struct job *job)
{
	struct runner *r = job->runner;

	if (job->queued || job->closed || !job->credit)
		return;
	job->queued = true;
	job->queue_next = NULL;
	*r->queue_end = job;
	r->queue_end = &job->queue_next;
}

void job_consume(struct job *job, size_t n, bool flush)
{
	struct wire_msg m = {.type = WIRE_CREDIT, .id = job->id};

	job->consumed += (uint32_t)n;
	if (!job->consumed || (!flush && job->consumed < CREDIT_STEP))
		return;
	m.count = job->consumed;
	job->held -= job->consumed;
	job->consumed = 0;
	uplink_send(&job->runner->uplink, &m, NULL, 0);
}

static void leave_queue(struct job *job)
{
	struct runner *r = job->runner;
	struct job **at = &r->queue;

	if (!job->queued)
		return;
	while (*at != job)
		at = &(*at)->queue_next;
	*at = job->queue_next;
	if (!*at)
		r->queue_end = at;
	job->queued = false;
}

void job_close(struct job *job)
{
	struct runner *r = job->runner;
	struct job **at = &r->bucket[job->id % JOB_BUCKETS];

	leave_queue(job);
	while (*at != job)
		at = &(*at)->next;
	*at = job->next;
	job->closed = true;
	job->next = r->graves;
	r->graves = job;
	r->n_jobs--;
}

void jobs_abandon(struct runner *r)
{
	for (unsigned i = 0; i < JOB_BUCKETS; i++)
		while (r->bucket[i]) {
			struct job *job = r->bucket[i];

			job->ops->release(job);
			job_close(job);
		}
}

void watch_set(struct runner *r, struct watch *w, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = w};
	int how = !w->events ? EPOLL_CTL_ADD : events ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;

	if (w->fd < 0 || events == w->events)
		return;
	if (epoll_ctl(r->epoll, how, w->fd, &ev) == 0 || !events)
		w->events = events;
}

void watch_close(struct runner *r, struct watch *w)
{
	if (w->fd < 0)
		return;
	watch_set(r, w, 0);
	close(w->fd);
	w->fd = -1;
}

/* True once no process can write into the pipe any more. */
static bool discard(int fd)
{
	static char nowhere[64 * 1024];
	ssize_t n = read(fd, nowhere, sizeof(nowhere));

	return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

static void sink_ready(struct watch *w, uint32_t events)
{
	struct sink *sink = (struct sink *)w;

	(void)events;
	if (discard(w->fd))
		watch_close(sink->runner, w);
}

/* A free sink, or else the one that has been in use for longest. */
static struct sink *next_sink(struct runner *r)
{
	struct sink *sink;

	for (unsigned i = 0; i < SINKS_MAX; i++)
		if (r->sink[(r->next_sink + i) % SINKS_MAX].watch.fd < 0) {
			r->next_sink = (r->next_sink + i) % SINKS_MAX;
			break;
		}
	sink = &r->sink[r->next_sink];
	r->next_sink = (r->next_sink + 1) % SINKS_MAX;
	return sink;
}

void watch_sink(struct runner *r, struct watch *w)
{
	struct sink *sink;

	watch_set(r, w, 0);
	if (w->fd < 0 || discard(w->fd)) {
		watch_close(r, w);
		return;
	}
	sink = next_sink(r);
	watch_close(r, &sink->watch);
	*sink = (struct sink){.watch = {.fd = w->fd, .ready = sink_ready}, .runner = r};
	w->fd = -1;
	watch_set(r, &sink->watch, EPOLLIN);
}
