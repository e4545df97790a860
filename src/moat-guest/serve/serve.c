/* serve.c - the loop: wait, handle what came, let jobs send. */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "moat-guest/common/job.h"
#include "moat-guest/identity/identity.h"

enum {
	EVENTS_MAX = 64,
	LOOK_AGAIN_MS = 1000, /* for the host, should the kernel not tell */
};

static volatile sig_atomic_t init_wants_us_gone;

uint64_t clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Leave when init says so: a guest that shuts down must not wait for the runner. SIGTERM of other
 * processes is ignored. */
static void on_sigterm(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	if (info->si_pid == 1)
		init_wants_us_gone = 1;
}

/* SIGTERM arrives only inside epoll_pwait. Children that end leave no zombie. */
static void set_signals(sigset_t *ret_while_waiting)
{
	struct sigaction on_term = {.sa_sigaction = on_sigterm, .sa_flags = SA_SIGINFO};
	sigset_t term;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, ret_while_waiting);
	sigdelset(ret_while_waiting, SIGTERM);
	sigaction(SIGTERM, &on_term, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGCHLD, SIG_IGN);
}

static void handle_frames(struct runner *r)
{
	struct wire_msg m;
	struct frame f;
	enum uplink_found found;

	while ((found = uplink_next(&r->uplink, &m, &f)) != UPLINK_MORE)
		if (found == UPLINK_LOST || !runner_handle(r, &m, &f)) {
			uplink_lose(&r->uplink);
			jobs_abandon(r);
		}
}

static void uplink_in_ready(struct watch *w, uint32_t events)
{
	struct runner *r = (struct runner *)((char *)w - offsetof(struct runner, uplink_in));

	(void)events;
	r->look_again = 0;
	switch (uplink_fill(&r->uplink)) {
	case UPLINK_BYTES:
		handle_frames(r);
		break;
	case UPLINK_ABSENT:
		r->look_again = clock_ms() + LOOK_AGAIN_MS;
		break;
	case UPLINK_GONE:
		r->leaving = true;
		break;
	case UPLINK_NOTHING:
		break;
	}
}

static void uplink_out_ready(struct watch *w, uint32_t events)
{
	(void)w; /* every round ends with a flush */
	(void)events;
}

/*
 * While nobody is connected on the host, a virtio port is readable, with nothing to read, and "hung
 * up" without end. Edge-triggered it wakes us just when that changes. Commands go on meanwhile: the
 * next HELLO ends them.
 */
static void watch_line(struct runner *r)
{
	uint32_t edge = r->look_again ? EPOLLET : 0;

	watch_set(r, &r->uplink_in, r->uplink.tx.len < UPLINK_FULL ? EPOLLIN | edge : 0);
	watch_set(r, &r->uplink_out, uplink_waits(&r->uplink) ? EPOLLOUT | edge : 0);
}

/* The earlier of two times; 0 means never. */
static uint64_t sooner(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

static int wait_ms(struct runner *r)
{
	uint64_t now, first = sooner(r->look_again, r->sshd.look_at);

	if (r->queue && uplink_has_room(&r->uplink))
		return 0;
	for (unsigned i = 0; i < JOB_BUCKETS; i++)
		for (struct job *job = r->bucket[i]; job; job = job->next)
			first = sooner(first, job->deadline);
	if (!first)
		return -1;
	now = clock_ms();
	return first <= now ? 0 : first - now > 60000 ? 60000 : (int)(first - now);
}

static void wait_and_handle(struct runner *r, const sigset_t *mask)
{
	struct epoll_event events[EVENTS_MAX];
	int n = epoll_pwait(r->epoll, events, EVENTS_MAX, wait_ms(r), mask);

	for (int i = 0; i < n; i++) {
		struct watch *w = events[i].data.ptr;

		if (w->events) /* not since closed by one of the others */
			w->ready(w, events[i].events);
	}
}

/* While the line is full only the line is watched: what the pipes hold can wait. */
static void wait_for_line(struct runner *r, const sigset_t *mask)
{
	int ms = wait_ms(r);
	struct timespec limit = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
	bool absent = r->look_again; /* then there is only the clock to go by */
	struct pollfd p[] = {
		{.fd = absent ? -1 : r->uplink.out, .events = POLLOUT},
		{.fd = absent || r->uplink.tx.len >= UPLINK_FULL ? -1 : r->uplink.in,
			.events = POLLIN},
	};

	if (ppoll(p, 2, ms < 0 ? NULL : &limit, mask) > 0 && p[1].revents)
		uplink_in_ready(&r->uplink_in, EPOLLIN);
}

static void run_timers(struct runner *r)
{
	uint64_t now = clock_ms();

	for (unsigned i = 0; i < JOB_BUCKETS; i++)
		for (struct job *job = r->bucket[i], *next; job; job = next) {
			next = job->next;
			if (job->deadline && job->deadline <= now) {
				job->deadline = 0;
				job->ops->expired(job);
			}
		}
	if (r->sshd.look_at && r->sshd.look_at <= now)
		hostkeys_look(r);
	if (r->look_again && r->look_again <= now)
		uplink_in_ready(&r->uplink_in, EPOLLIN);
}

static void let_jobs_send(struct runner *r)
{
	while (r->queue && uplink_has_room(&r->uplink)) {
		struct job *job = r->queue;

		r->queue = job->queue_next;
		if (!r->queue)
			r->queue_end = &r->queue;
		job->queued = false;
		if (job->ops->send_some(job))
			job_wants_to_send(job);
	}
}

static void bury(struct runner *r)
{
	while (r->graves) {
		struct job *job = r->graves;

		r->graves = job->next;
		free(job);
	}
}

static void one_round(struct runner *r, const sigset_t *mask)
{
	watch_line(r);
	if (uplink_has_room(&r->uplink))
		wait_and_handle(r, mask);
	else
		wait_for_line(r, mask);
	run_timers(r);
	let_jobs_send(r);
	if (!uplink_flush(&r->uplink) || init_wants_us_gone)
		r->leaving = true;
	if (!r->uplink.synced)
		jobs_abandon(r);
	bury(r);
}

static void runner_free(struct runner *r)
{
	jobs_abandon(r); /* closes the supervisors' sockets, which ends the commands */
	bury(r);
	for (unsigned i = 0; i < SINKS_MAX; i++)
		watch_close(r, &r->sink[i].watch);
	if (r->epoll >= 0)
		close(r->epoll);
	uplink_close(&r->uplink);
	free(r);
}

/* Reads on what background processes write, until the last of them has ended. */
static void drain_sinks(struct runner *r, const sigset_t *mask)
{
	struct epoll_event events[EVENTS_MAX];
	bool any = true;

	jobs_abandon(r);
	bury(r);
	watch_close(r, &r->uplink_in);
	watch_close(r, &r->uplink_out);
	r->uplink.in = r->uplink.out = -1;
	while (any && !init_wants_us_gone) {
		any = false;
		for (unsigned i = 0; i < SINKS_MAX; i++)
			any |= r->sink[i].watch.fd >= 0;
		for (int n = any ? epoll_pwait(r->epoll, events, EVENTS_MAX, -1, mask) : 0; n > 0;
			n--) {
			struct watch *w = events[n - 1].data.ptr;

			if (w->events)
				w->ready(w, events[n - 1].events);
		}
	}
}

int runner_serve(struct uplink *uplink)
{
	struct runner *r = calloc(1, sizeof(*r));
	sigset_t mask;
	int error = 0;

	if (!r)
		return ENOMEM;
	r->uplink = *uplink;
	r->queue_end = &r->queue;
	r->idle_supervisor.socket = -1;
	r->uplink_in = (struct watch){.fd = uplink->in, .ready = uplink_in_ready};
	r->uplink_out = (struct watch){.fd = uplink->out, .ready = uplink_out_ready};
	for (unsigned i = 0; i < SINKS_MAX; i++)
		r->sink[i].watch.fd = -1;
	r->epoll = epoll_create1(EPOLL_CLOEXEC);
	watch_set(r, &r->uplink_in, EPOLLIN);
	if (!r->uplink_in.events) {
		error = errno; /* no epoll, or stdin is a file */
	} else {
		set_signals(&mask);
		while (!r->leaving)
			one_round(r, &mask);
		if (r->idle_supervisor.socket >= 0)
			close(r->idle_supervisor.socket); /* which ends it */
		if (uplink->linger)
			drain_sinks(r, &mask);
	}
	runner_free(r);
	return error;
}
