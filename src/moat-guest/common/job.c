#include "moat-guest/common/job.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { CREDIT_STEP = WIRE_WINDOW / 4 };

struct channel *channel_find(struct runner *r, uint32_t id)
{
	struct channel *ch = r->bucket[id % CHANNEL_BUCKETS];

	while (ch && ch->id != id)
		ch = ch->next;
	return ch;
}

struct channel *channel_new(
	struct runner *r, uint32_t id, size_t size, const struct channel_ops *ops)
{
	struct channel **bucket = &r->bucket[id % CHANNEL_BUCKETS];
	struct channel *ch;

	if (r->n_channels == WIRE_CHANNELS_MAX) {
		errno = EAGAIN;
		return NULL;
	}
	ch = calloc(1, size);
	if (!ch)
		return NULL;
	ch->ops = ops;
	ch->runner = r;
	ch->id = id;
	ch->credit = WIRE_WINDOW;
	ch->next = *bucket;
	*bucket = ch;
	r->n_channels++;
	return ch;
}

void channel_wants_to_send(struct channel *ch)
{
	struct runner *r = ch->runner;

	if (ch->queued || ch->closed || !ch->credit)
		return;
	ch->queued = true;
	ch->queue_next = NULL;
	*r->queue_end = ch;
	r->queue_end = &ch->queue_next;
}

void channel_consume(struct channel *ch, size_t n, bool flush)
{
	struct wire_msg m = {.type = WIRE_CREDIT, .id = ch->id};

	ch->consumed += (uint32_t)n;
	if (!ch->consumed || (!flush && ch->consumed < CREDIT_STEP))
		return;
	m.count = ch->consumed;
	ch->held -= ch->consumed;
	ch->consumed = 0;
	uplink_send(&ch->runner->uplink, &m, NULL, 0);
}

static void leave_queue(struct channel *ch)
{
	struct runner *r = ch->runner;
	struct channel **at = &r->queue;

	if (!ch->queued)
		return;
	while (*at != ch)
		at = &(*at)->queue_next;
	*at = ch->queue_next;
	if (!*at)
		r->queue_end = at;
	ch->queued = false;
}

void channel_close(struct channel *ch)
{
	struct runner *r = ch->runner;
	struct channel **at = &r->bucket[ch->id % CHANNEL_BUCKETS];

	leave_queue(ch);
	while (*at != ch)
		at = &(*at)->next;
	*at = ch->next;
	ch->closed = true;
	ch->next = r->graves;
	r->graves = ch;
	r->n_channels--;
}

void channels_abandon(struct runner *r)
{
	for (unsigned i = 0; i < CHANNEL_BUCKETS; i++)
		while (r->bucket[i]) {
			struct channel *ch = r->bucket[i];

			ch->ops->release(ch);
			channel_close(ch);
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
