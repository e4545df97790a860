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
#include "moat-guest/serve/settle.h"
#include "moat-guest/common/spool.h"

enum {
	/* Output that is not captured. With capture the runner itself keeps to the limit. */
	OUTPUT_MAX = 64 * 1024 * 1024,
	RX_SIZE = FRAME_HEADER + WIRE_HEAD_MAX + WIRE_PIECE,
};

struct talk {
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

static void say(struct talk *t, const struct wire_msg *m)
{
	uint8_t head[WIRE_HEAD_MAX];
	size_t n = wire_encode(m, head);

	if (t->small_len + FRAME_HEADER + n > sizeof(t->small)) {
		t->broken = true; /* the runner reads nothing: it is stuck */
		return;
	}
	frame_encode_header(t->small + t->small_len, (uint32_t)n, 0);
	memcpy(t->small + t->small_len + FRAME_HEADER, head, n);
	t->small_len += FRAME_HEADER + n;
}

static void cancel(struct talk *t)
{
	if (t->cancelled || t->ended)
		return;
	t->cancelled = true;
	say(t, &(struct wire_msg){.type = WIRE_CANCEL, .id = t->id});
}

/* Whether the next frame of the request may go now; sets whole. */
static bool next_frame(struct talk *t)
{
	struct wire_msg m;
	struct frame f;
	long size;

	if (t->whole)
		return true;
	if (!t->left)
		return false;
	size = frame_decode(t->request, t->left, &wire_to_guest, &f);
	if (size <= 0 || !wire_decode(f.head, f.head_len, &m)) {
		t->broken = true;
		return false;
	}
	if (m.type == WIRE_DATA) {
		if (t->uncredited + f.body_len > WIRE_WINDOW)
			return false;
		t->uncredited += f.body_len;
	}
	t->id = m.id;
	t->whole = (size_t)size;
	return true;
}

static ssize_t send_some(struct talk *t, const uint8_t *p, size_t n)
{
	ssize_t done = send(t->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (done < 0 && errno != EAGAIN && errno != EINTR)
		t->broken = true;
	return done;
}

/* True: there is more to send. The worker's own messages go between frames of the request. */
static bool flush(struct talk *t)
{
	while (!t->broken) {
		ssize_t n;

		if (t->small_len && !t->whole) {
			n = send_some(t, t->small, t->small_len);
			if (n <= 0)
				return true;
			t->small_len -= (size_t)n;
			memmove(t->small, t->small + n, t->small_len);
			if (t->small_len)
				return true;
		}
		if (!next_frame(t))
			return t->small_len > 0;
		n = send_some(t, t->request, t->whole);
		if (n <= 0)
			return true;
		t->request += n;
		t->left -= (size_t)n;
		t->whole -= (size_t)n;
	}
	return false;
}

static void keep(struct talk *t, const uint8_t *p, size_t n)
{
	if (spool_add(&t->out, p, n))
		t->broken = true;
}

static void take_frame(struct talk *t, const uint8_t *p, size_t n, const struct frame *f)
{
	struct wire_msg m;

	if (!wire_decode(f->head, f->head_len, &m)) {
		t->broken = true;
		return;
	}
	switch (m.type) {
	case WIRE_DATA:
		if (t->out.length > OUTPUT_MAX)
			cancel(t);
		else
			keep(t, p, n);
		t->owed += f->body_len;
		break;
	case WIRE_CREDIT:
		t->uncredited -= m.count < t->uncredited ? m.count : t->uncredited;
		break;
	case WIRE_EXIT:
	case WIRE_DONE:
		keep(t, p, n);
		t->ended = true;
		break;
	default: /* the answer to HELLO */
		break;
	}
}

static void receive(struct talk *t)
{
	ssize_t n = recv(t->fd, t->rx + t->rx_len, sizeof(t->rx) - t->rx_len, MSG_DONTWAIT);
	size_t at = 0;
	struct frame f;
	long size;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		t->broken = true;
		return;
	}
	t->rx_len += (size_t)n;
	while (!t->ended && !t->broken &&
		(size = frame_decode(t->rx + at, t->rx_len - at, &wire_to_host, &f)) != 0) {
		if (size < 0) {
			t->broken = true;
			return;
		}
		take_frame(t, t->rx + at, (size_t)size, &f);
		at += (size_t)size;
	}
	t->rx_len -= at;
	memmove(t->rx, t->rx + at, t->rx_len);
	if (t->owed >= WIRE_WINDOW / 4) {
		say(t, &(struct wire_msg){.type = WIRE_CREDIT, .id = t->id, .count = t->owed});
		t->owed = 0;
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

static void converse(struct talk *t, const sigset_t *while_waiting)
{
	while (!t->ended && !t->broken) {
		bool more = flush(t);
		struct pollfd p = {.fd = t->fd, .events = (short)(POLLIN | (more ? POLLOUT : 0))};

		if (t->broken)
			break;
		if (ppoll(&p, 1, NULL, while_waiting) > 0 && (p.revents & ~POLLOUT))
			receive(t);
		if (asked_to_end)
			cancel(t);
	}
}

/* Writes the file that says that the result is complete. */
static void put_end(const struct talk *t, int dir)
{
	struct ascii_head h = {
		.id = "0", .parts = t->out.parts, .length = t->out.length, .crc = t->out.crc};
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

static int start_runner(struct once_job *job)
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
		close(job->lock);
		close(job->dir);
		once_job_drop(job);
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

_Noreturn void once_work(struct once_job *job)
{
	static struct talk t;
	sigset_t while_waiting;

	setsid();
	blank_stdio();
	settle(true);
	t.fd = start_runner(job);
	if (t.fd < 0)
		_exit(1);
	signal(SIGHUP, SIG_IGN);
	spool_begin(&t.out, job->dir, "");
	t.request = job->request;
	t.left = job->len;
	say(&t, &(struct wire_msg){.type = WIRE_HELLO, .version = WIRE_VERSION});
	heed_sigterm(&while_waiting);
	write_pid(job->lock); /* from here on `kill ID` may send it */
	converse(&t, &while_waiting);
	if (spool_end(&t.out) == 0)
		put_end(&t, job->dir);
	_exit(0);
}
