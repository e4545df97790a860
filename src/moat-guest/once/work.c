/*
 * work.c - the worker of `moat-guest once`. It plays the host: it starts a runner at the other end
 * of a socket, sends the request from memory, and puts the answer into the spool.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/ascii.h"
#include "wire/wire.h"
#include "moat-guest/common/job.h"
#include "moat-guest/once/once.h"
#include "moat-guest/serve/process.h"
#include "moat-guest/common/spool.h"

enum {
	/* Output that is not captured. With capture the runner itself keeps to the limit. */
	OUTPUT_MAX = 64 * 1024 * 1024,
	RX_SIZE = FRAME_HEADER + WIRE_HEAD_MAX + WIRE_PIECE,
};

struct worker {
	int fd;
	const uint8_t *request; /* what is left of it */
	size_t left;
	size_t uncredited;  /* bytes of DATA that were sent and not credited */
	uint32_t owed;      /* bytes of DATA that came and are to be credited */
	uint8_t small[512]; /* messages that the worker adds to the request */
	size_t small_len;
	size_t whole; /* what is still to be sent of the request's next frame; 0: not begun */
	uint8_t rx[RX_SIZE];
	size_t rx_len;
	uint32_t id;
	bool cancelled, ended, broken;
	struct spool_writer out;
};

static volatile sig_atomic_t asked_to_end;

static void on_sigterm(int number)
{
	(void)number;
	asked_to_end = 1;
}

static void say(struct worker *w, const struct wire_msg *m)
{
	uint8_t head[WIRE_HEAD_MAX];
	size_t n = wire_encode(m, head);

	if (w->small_len + FRAME_HEADER + n > sizeof(w->small)) {
		w->broken = true; /* the runner reads nothing: it is stuck */
		return;
	}
	frame_encode_header(w->small + w->small_len, (uint32_t)n, 0);
	memcpy(w->small + w->small_len + FRAME_HEADER, head, n);
	w->small_len += FRAME_HEADER + n;
}

static void cancel(struct worker *w)
{
	if (w->cancelled || w->ended)
		return;
	w->cancelled = true;
	say(w, &(struct wire_msg){.type = WIRE_CANCEL, .id = w->id});
}

/* Whether the next frame of the request may go now; sets whole. */
static bool next_frame(struct worker *w)
{
	struct wire_msg m;
	struct frame f;
	long size;

	if (w->whole)
		return true;
	if (!w->left)
		return false;
	size = frame_decode(w->request, w->left, &wire_to_guest, &f);
	if (size <= 0 || !wire_decode(f.head, f.head_len, &m)) {
		w->broken = true;
		return false;
	}
	if (m.type == WIRE_DATA) {
		if (w->uncredited + f.body_len > WIRE_WINDOW)
			return false;
		w->uncredited += f.body_len;
	}
	w->id = m.id;
	w->whole = (size_t)size;
	return true;
}

static ssize_t send_some(struct worker *w, const uint8_t *p, size_t n)
{
	ssize_t done = send(w->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (done < 0 && errno != EAGAIN && errno != EINTR)
		w->broken = true;
	return done;
}

/* True: there is more to send. The worker's own messages go between frames of the request. */
static bool flush(struct worker *w)
{
	while (!w->broken) {
		ssize_t n;

		if (w->small_len && !w->whole) {
			n = send_some(w, w->small, w->small_len);
			if (n <= 0)
				return true;
			w->small_len -= (size_t)n;
			memmove(w->small, w->small + n, w->small_len);
			if (w->small_len)
				return true;
		}
		if (!next_frame(w))
			return w->small_len > 0;
		n = send_some(w, w->request, w->whole);
		if (n <= 0)
			return true;
		w->request += n;
		w->left -= (size_t)n;
		w->whole -= (size_t)n;
	}
	return false;
}

static void keep(struct worker *w, const uint8_t *p, size_t n)
{
	if (spool_add(&w->out, p, n))
		w->broken = true;
}

static void take_frame(struct worker *w, const uint8_t *p, size_t n, const struct frame *f)
{
	struct wire_msg m;

	if (!wire_decode(f->head, f->head_len, &m)) {
		w->broken = true;
		return;
	}
	switch (m.type) {
	case WIRE_DATA:
		if (w->out.length > OUTPUT_MAX)
			cancel(w);
		else
			keep(w, p, n);
		w->owed += f->body_len;
		break;
	case WIRE_CREDIT:
		w->uncredited -= m.count < w->uncredited ? m.count : w->uncredited;
		break;
	case WIRE_EXIT:
	case WIRE_DONE:
		keep(w, p, n);
		w->ended = true;
		break;
	default: /* the answer to HELLO */
		break;
	}
}

static void receive(struct worker *w)
{
	ssize_t n = recv(w->fd, w->rx + w->rx_len, sizeof(w->rx) - w->rx_len, MSG_DONTWAIT);
	size_t at = 0;
	struct frame f;
	long size;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		w->broken = true;
		return;
	}
	w->rx_len += (size_t)n;
	while (!w->ended && !w->broken &&
		(size = frame_decode(w->rx + at, w->rx_len - at, &wire_to_host, &f)) != 0) {
		if (size < 0) {
			w->broken = true;
			return;
		}
		take_frame(w, w->rx + at, (size_t)size, &f);
		at += (size_t)size;
	}
	w->rx_len -= at;
	memmove(w->rx, w->rx + at, w->rx_len);
	if (w->owed >= WIRE_WINDOW / 4) {
		say(w, &(struct wire_msg){.type = WIRE_CREDIT, .id = w->id, .count = w->owed});
		w->owed = 0;
	}
}

/* SIGTERM arrives only while we wait. */
static void heed_sigterm(sigset_t *ret_while_waiting)
{
	struct sigaction on_term = {.sa_handler = on_sigterm};
	sigset_t term;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, ret_while_waiting);
	sigaction(SIGTERM, &on_term, NULL);
}

static void converse(struct worker *w, const sigset_t *while_waiting)
{
	while (!w->ended && !w->broken) {
		bool more = flush(w);
		struct pollfd p = {.fd = w->fd, .events = (short)(POLLIN | (more ? POLLOUT : 0))};

		if (w->broken)
			break;
		if (ppoll(&p, 1, NULL, while_waiting) > 0 && (p.revents & ~POLLOUT))
			receive(w);
		if (asked_to_end)
			cancel(w);
	}
}

/* Writes the file that says that the result is complete. */
static void put_end(const struct worker *w, int dir)
{
	struct ascii_head h = {
		.id = "0", .parts = w->out.parts, .length = w->out.length, .crc = w->out.crc};
	char text[ASCII_HEAD_MAX];
	size_t n = ascii_put_head(&h, text);
	int fd = openat(dir, "end.new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	bool good = fd >= 0 && write(fd, text, n) == (ssize_t)n;

	if (fd >= 0)
		close(fd);
	if (good)
		renameat(dir, "end.new", dir, "end");
}

/* The runner lives on while there are background processes: it empties their pipes. */
static _Noreturn void be_the_runner(int fd)
{
	struct uplink uplink = {.in = fd, .linger = true};

	uplink.out = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	runner_serve(&uplink);
	_exit(0);
}

static void blank_stdio(void)
{
	int fd = open("/dev/null", O_RDWR);

	for (int i = 0; fd >= 0 && i < 3; i++)
		dup2(fd, i);
	if (fd > 2)
		close(fd);
}

static int start_runner(struct once_request *rq)
{
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	pid = fork();
	if (pid < 0)
		return -1;
	if (pid == 0) {
		close(pair[0]);
		close(rq->lock);
		close(rq->dir);
		once_request_drop(rq);
		be_the_runner(pair[1]);
	}
	close(pair[1]);
	return pair[0];
}

static void write_pid(int lock)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%d\n", (int)getpid());

	if (write(lock, text, (size_t)n) < 0)
		return; /* then only its timeout can end the command */
}

_Noreturn void once_work(struct once_request *rq)
{
	static struct worker w;
	sigset_t while_waiting;

	setsid();
	blank_stdio();
	process_prepare(true);
	w.fd = start_runner(rq);
	if (w.fd < 0)
		_exit(1);
	signal(SIGHUP, SIG_IGN);
	spool_begin(&w.out, rq->dir, "");
	w.request = rq->request;
	w.left = rq->len;
	say(&w, &(struct wire_msg){.type = WIRE_HELLO, .version = WIRE_VERSION});
	heed_sigterm(&while_waiting);
	write_pid(rq->lock); /* from here on `kill ID` may send it */
	converse(&w, &while_waiting);
	if (spool_end(&w.out) == 0)
		put_end(&w, rq->dir);
	_exit(0);
}
