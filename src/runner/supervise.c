#include "runner/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
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

/* Takes it out of the loop; the memory stays until no event can refer to it. */
static void retire(struct supervisor *s)
{
	watch_close(s->runner, &s->watch);
	close_ends(&s->ours);
	close_ends(&s->theirs);
	s->arg = NULL;
	s->next = s->runner->retired;
	s->runner->retired = s;
}

/* Of one that nobody uses: it was killed, or could not make a process. */
static void idle_ended(struct supervisor *s)
{
	struct runner *r = s->runner;

	for (struct supervisor **at = &r->idle; *at; at = &(*at)->next)
		if (*at == s) {
			*at = s->next;
			r->n_idle--;
			retire(s);
			break;
		}
	if (!r->idle)
		r->refill_at = clock_ms() + REFILL_MS;
}

static void supervisor_ready(struct watch *w, uint32_t events)
{
	struct supervisor *s = (struct supervisor *)w;

	(void)events;
	if (s->arg)
		s->news(s->arg);
	else
		idle_ended(s);
}

/* Has a process made that waits for the next job. 0 or an errno. */
static int get_ready(struct supervisor *s)
{
	int error = pipe_make(&s->ours.out, &s->theirs.out, true);

	if (!error)
		error = pipe_make(&s->ours.err, &s->theirs.err, true);
	if (error)
		return error;
	s->job->state = (struct job_state){0};
	return order_send(
		s->watch.fd, ORDER_GET_READY, (const int[]){s->theirs.out, s->theirs.err}, 2);
}

static int start_process(struct supervisor *s)
{
	int sockets[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return errno;
	pid = fork();
	if (pid == 0)
		supervisor_live(sockets[1], s->job);
	close(sockets[1]);
	s->watch.fd = sockets[0];
	return pid < 0 ? errno : 0;
}

static struct supervisor *supervisor_new(struct runner *r, size_t size)
{
	struct supervisor *s = calloc(1, sizeof(*s));
	int error;

	if (!s)
		return NULL;
	*s = (struct supervisor){.watch = {.fd = -1, .ready = supervisor_ready},
		.runner = r,
		.once = size > JOB_SIZE || ring_used() > RINGS_SMALL,
		.ours = {-1, -1},
		.theirs = {-1, -1},
		.job = job_map(size > JOB_SIZE ? size : JOB_SIZE)};
	if (!s->job) {
		free(s);
		return NULL;
	}
	error = start_process(s);
	if (!error)
		error = get_ready(s);
	if (error) {
		retire(s);
		errno = error;
		return NULL;
	}
	watch_set(r, &s->watch, EPOLLIN);
	return s;
}

struct supervisor *supervise_take(struct runner *r, size_t size)
{
	struct supervisor *s = r->idle;

	if (!s || size > s->job->size)
		return supervisor_new(r, size);
	r->idle = s->next;
	r->n_idle--;
	if (!r->idle)
		r->refill_at = clock_ms() + REFILL_MS;
	return s;
}

void supervise_put_back(struct supervisor *s)
{
	struct runner *r = s->runner;

	s->next = r->idle;
	r->idle = s;
	r->n_idle++;
	r->refill_at = 0;
}

int supervise_start(struct supervisor *s, int in, void (*news)(void *arg), void *arg)
{
	int error = order_send(s->watch.fd, ORDER_START, &in, 1);

	if (error)
		return error;
	s->news = news;
	s->arg = arg;
	return 0;
}

int supervise_report(struct supervisor *s, struct report *ret)
{
	ssize_t n = recv(s->watch.fd, ret, sizeof(*ret), MSG_DONTWAIT);

	if (n == sizeof(*ret))
		return 1;
	return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
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

void supervise_return(struct supervisor *s, bool alone)
{
	struct runner *r = s->runner;

	close_ends(&s->ours);
	close_ends(&s->theirs);
	s->arg = NULL;
	if (!alone || s->once || r->n_idle >= IDLE_MAX || get_ready(s) != 0) {
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
	if (r->idle || ring_used() > RINGS_SMALL)
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

		r->retired = s->next;
		job_unmap(s->job);
		free(s);
	}
}

void supervise_dismiss(struct runner *r)
{
	while (r->idle) {
		struct supervisor *s = r->idle;

		r->idle = s->next;
		retire(s);
	}
	r->n_idle = 0;
	supervise_bury(r);
}
