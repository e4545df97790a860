#include "runner/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runner/orders.h"
#include "runner/ring.h"
#include "runner/supervisor.h"

enum {
	IDLE_MAX = 4,
	JOB_SIZE = 256 * 1024, /* a larger job gets a supervisor of its own */
	REFILL_MS = 20,        /* not while the command that took the last one is starting */
	/* One that was forked while the runner held more than this holds it, too, while it lives.
	 */
	RINGS_SMALL = 1024 * 1024,
};

int pipe_make(int *ret_ours, int *ret_theirs, bool we_read)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return errno;
	*ret_ours = fds[we_read ? 0 : 1];
	*ret_theirs = fds[we_read ? 1 : 0];
	return fcntl(*ret_ours, F_SETFL, O_NONBLOCK) < 0 ? errno : 0;
}

static void close_ends(struct pipe_ends *ends)
{
	if (ends->out >= 0)
		close(ends->out);
	if (ends->err >= 0)
		close(ends->err);
	*ends = (struct pipe_ends){-1, -1};
}

static void place_clear(struct place *p)
{
	close_ends(&p->ours);
	close_ends(&p->theirs);
	p->taken = false;
}

/* Takes it out of the loop; the memory stays until no event can refer to it. */
static void retire(struct supervisor *s)
{
	watch_close(s->runner, &s->watch);
	watch_close(s->runner, &s->told);
	if (s->input >= 0)
		close(s->input);
	s->input = -1;
	for (unsigned i = 0; i < JOB_PLACES; i++)
		place_clear(&s->place[i]);
	s->arg = NULL;
	s->next_idle = s->runner->retired;
	s->runner->retired = s;
}

/* Of one that nobody uses: it was killed, or could not make a process. */
static void idle_ended(struct supervisor *s)
{
	struct runner *r = s->runner;

	for (struct supervisor **at = &r->idle; *at; at = &(*at)->next_idle)
		if (*at == s) {
			*at = s->next_idle;
			r->n_idle--;
			retire(s);
			break;
		}
	if (!r->idle)
		r->refill_at = clock_ms() + REFILL_MS;
}

static void supervisor_ended(struct watch *w, uint32_t events)
{
	struct supervisor *s = (struct supervisor *)w;

	(void)events;
	if (s->arg)
		s->news(s->arg);
	else
		idle_ended(s);
}

static void supervisor_told(struct watch *w, uint32_t events)
{
	struct supervisor *s = (struct supervisor *)((char *)w - offsetof(struct supervisor, told));

	(void)events;
	if (s->arg)
		s->news(s->arg);
}

/* Has a process made that waits in this place. 0 or an errno. */
static int fill_place(struct supervisor *s, unsigned i)
{
	struct place *p = &s->place[i];
	int error;

	place_clear(p);
	error = pipe_make(&p->ours.out, &p->theirs.out, true);
	if (!error)
		error = pipe_make(&p->ours.err, &p->theirs.err, true);
	if (error)
		return error;
	s->job->state.go[i] = JOB_WAIT;
	p->taken = true;
	return order_send(s->watch.fd, i, (const int[]){p->theirs.out, p->theirs.err}, 2);
}

static bool is_taken(struct supervisor *s, unsigned i)
{
	if (s->place[i].taken && s->job->state.go[i] == JOB_VACANT)
		place_clear(&s->place[i]);
	return s->place[i].taken;
}

static void clear_used(struct supervisor *s)
{
	for (unsigned i = 0; i < JOB_PLACES; i++)
		if (!is_taken(s, i))
			place_clear(&s->place[i]);
}

static int fill_places(struct supervisor *s)
{
	int error = 0;

	for (unsigned i = 0; i < JOB_PLACES && !error; i++)
		if (!is_taken(s, i))
			error = fill_place(s, i);
	return error;
}

/* The next place in turn that is taken; false: none is. */
static bool choose_place(struct supervisor *s)
{
	for (unsigned i = 0; i < JOB_PLACES; i++, s->next = (s->next + 1) % JOB_PLACES)
		if (is_taken(s, s->next))
			return true;
	return false;
}

static int start_process(struct supervisor *s)
{
	int orders[2], input[2], error = 0;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, orders) < 0)
		return errno;
	s->watch.fd = orders[0];
	s->told.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->told.fd < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, input) < 0) {
		error = errno;
		close(orders[1]);
		return error;
	}
	s->input = input[0];
	pid = fork();
	if (pid == 0)
		supervisor_live(orders[1], input[1], s->told.fd, s->job);
	if (pid < 0)
		error = errno;
	/* Of no use to the next: with hundreds of commands they would be most of a fork. */
	madvise(s->job, s->job->size, MADV_DONTFORK);
	close(orders[1]);
	close(input[1]);
	return error;
}

static struct supervisor *supervisor_new(struct runner *r, size_t size)
{
	struct supervisor *s = calloc(1, sizeof(*s));
	int error;

	if (!s)
		return NULL;
	*s = (struct supervisor){.watch = {.fd = -1, .ready = supervisor_ended},
		.told = {.fd = -1, .ready = supervisor_told},
		.runner = r,
		.input = -1,
		.once = size > JOB_SIZE || ring_used() > RINGS_SMALL,
		.job = job_map(size > JOB_SIZE ? size : JOB_SIZE)};
	if (!s->job) {
		free(s);
		return NULL;
	}
	for (unsigned i = 0; i < JOB_PLACES; i++)
		s->place[i] = (struct place){false, {-1, -1}, {-1, -1}};
	error = start_process(s);
	if (!error)
		error = fill_place(s, 0);
	if (!error) {
		watch_set(r, &s->watch, EPOLLIN);
		watch_set(r, &s->told, EPOLLIN | EPOLLET); /* so that nobody needs to read it */
		if (!s->watch.events || !s->told.events)
			error = errno;
	}
	if (error) {
		retire(s);
		errno = error;
		return NULL;
	}
	return s;
}

struct supervisor *supervise_take(struct runner *r, size_t size)
{
	struct supervisor *s = r->idle;

	if (!s || size > s->job->size)
		return supervisor_new(r, size);
	r->idle = s->next_idle;
	r->n_idle--;
	r->refill_at = clock_ms() + REFILL_MS;
	if (choose_place(s))
		return s;
	retire(s);
	return supervisor_new(r, size);
}

void supervise_put_back(struct supervisor *s)
{
	struct runner *r = s->runner;

	s->next_idle = r->idle;
	r->idle = s;
	r->n_idle++;
	r->refill_at = clock_ms() + REFILL_MS;
}

static bool has_left(const struct supervisor *s)
{
	char byte;

	return recv(s->watch.fd, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) >= 0;
}

int supervise_start(struct supervisor *s, int in, void (*news)(void *arg), void *arg)
{
	volatile struct job_state *state = &s->job->state;
	int error;

	state->pid = state->early_signal = state->started = state->stage = state->error = 0;
	state->reported = 0;
	__atomic_store_n(&state->place, (int32_t)s->next, __ATOMIC_SEQ_CST);
	error = in < 0 ? 0 : order_send(s->input, 0, &in, 1);
	if (!error && has_left(s))
		error = EPIPE;
	if (error)
		return error;
	if (!job_go(s->job, s->next, in < 0 ? JOB_GO : JOB_GO_WITH_INPUT))
		return EPIPE; /* it has become vacant just now */
	s->news = news;
	s->arg = arg;
	return 0;
}

int supervise_report(struct supervisor *s, struct report *ret)
{
	volatile struct job_state *state = &s->job->state;

	/* What it wrote before it left is there when its leaving is seen. */
	if (!__atomic_load_n(&state->reported, __ATOMIC_SEQ_CST) && !has_left(s))
		return 0;
	if (!__atomic_load_n(&state->reported, __ATOMIC_SEQ_CST))
		return -1;
	*ret = (struct report){state->report.stage, state->report.value, state->report.alone};
	return 1;
}

void supervise_signal(struct supervisor *s, int number)
{
	volatile struct job_state *state = &s->job->state;
	pid_t pid = __atomic_load_n(&state->pid, __ATOMIC_SEQ_CST);

	if (!pid) {
		/* The command looks for it after it has said its pid, and so one of us sees the
		 * other. */
		__atomic_store_n(&state->early_signal, number, __ATOMIC_SEQ_CST);
		pid = __atomic_load_n(&state->pid, __ATOMIC_SEQ_CST);
		if (!pid)
			return;
	}
	/* The group comes into being a moment after the process. */
	if (kill(-pid, number) < 0 && errno == ESRCH)
		kill(pid, number);
}

void supervise_end_all(struct supervisor *s)
{
	s->once = true;
	shutdown(s->watch.fd, SHUT_WR);
}

void supervise_return(struct supervisor *s, bool alone, struct pipe_ends ours)
{
	struct runner *r = s->runner;
	struct place *p = &s->place[s->next];

	if (ours.out >= 0)
		p->ours.out = ours.out;
	if (ours.err >= 0)
		p->ours.err = ours.err;
	p->taken = false;
	s->arg = NULL;
	if (!alone || s->once || r->n_idle >= IDLE_MAX ||
		(!choose_place(s) && (fill_places(s) != 0 || !choose_place(s)))) {
		retire(s);
		return;
	}
	supervise_put_back(s);
}

void supervise_drop(struct supervisor *s)
{
	retire(s);
}

void supervise_refill(struct runner *r)
{
	struct supervisor *s;

	r->refill_at = 0;
	for (s = r->idle; s; s = s->next_idle)
		clear_used(s);
	if (r->idle) {
		if (fill_places(r->idle) != 0)
			idle_ended(r->idle);
		return;
	}
	if (ring_used() > RINGS_SMALL)
		return;
	s = supervisor_new(r, JOB_SIZE);
	if (!s)
		return; /* the next command will say why */
	supervise_put_back(s);
}

void supervise_bury(struct runner *r)
{
	while (r->retired) {
		struct supervisor *s = r->retired;

		r->retired = s->next_idle;
		job_unmap(s->job);
		free(s);
	}
}

void supervise_dismiss(struct runner *r)
{
	while (r->idle) {
		struct supervisor *s = r->idle;

		r->idle = s->next_idle;
		retire(s);
	}
	r->n_idle = 0;
	supervise_bury(r);
}
