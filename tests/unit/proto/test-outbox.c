#include "proto/outbox.h"

#include <sys/eventfd.h>
#include <sys/socket.h>

#include "tap.h"
#include "scratch.h"
#include "wire/frame.h"

static const struct frame_limits limits = {.head_min = 1, .head_max = 1000, .body_max = 1 << 20};

static struct bytes text(const char *s)
{
	return (struct bytes){(const uint8_t *)s, strlen(s)};
}

static void socket_pair(int fds[2])
{
	int small = 4096;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0 ||
		setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)) < 0)
		abort();
}

/* Does what a session's thread does: flushes when bytes wait and the socket has room. */
struct flusher {
	struct outbox *o;
	int stop;
	pthread_t thread;
};

static void *flush_loop(void *arg)
{
	struct flusher *f = arg;
	int left = 0;
	struct err e;

	for (;;) {
		struct pollfd fds[] = {{.fd = f->o->wake, .events = POLLIN},
			{.fd = left > 0 ? f->o->fd : -1, .events = POLLOUT},
			{.fd = f->stop, .events = POLLIN}};

		poll(fds, 3, -1);
		if (fds[2].revents)
			return NULL;
		left = outbox_flush(f->o, &e);
		if (left < 0)
			return NULL;
	}
}

static void flusher_start(struct flusher *f, struct outbox *o)
{
	*f = (struct flusher){.o = o, .stop = eventfd(0, EFD_CLOEXEC)};
	pthread_create(&f->thread, NULL, flush_loop, f);
}

static void flusher_end(struct flusher *f)
{
	uint64_t one = 1;

	if (write(f->stop, &one, sizeof(one)) < 0)
		abort();
	pthread_join(f->thread, NULL);
	close(f->stop);
}

static void test_goes_out_at_once(void)
{
	struct op op = op_for_cleanup(10);
	struct outbox o;
	struct frame f;
	uint8_t got[100];
	int fds[2];
	struct err e;
	ssize_t n;

	socket_pair(fds);
	OK(outbox_init(&o, fds[0], -1, "the peer", &e) == 0);
	OK(outbox_send(&op, &o, text("head"), text("body"), &e) == 0);
	n = recv(fds[1], got, sizeof(got), MSG_DONTWAIT);
	OK(n == FRAME_HEADER + 8 && frame_decode(got, (size_t)n, &limits, &f) == n);
	OK(f.head_len == 4 && memcmp(f.body, "body", 4) == 0);
	OK(outbox_flush(&o, &e) == 0);
	outbox_done(&o);
	close(fds[0]);
	close(fds[1]);
	outbox_done(&(struct outbox){0});
}

enum { SENDERS = 4, FRAMES = 300, BODY = 3000 };

struct sender {
	struct outbox *o;
	pthread_t thread;
	int number;
	bool failed;
};

static void *send_many(void *arg)
{
	struct sender *s = arg;
	struct op op = op_for_cleanup(60);
	uint8_t body[BODY];
	char head[32];
	struct err e;

	memset(body, s->number, sizeof(body));
	for (int i = 0; i < FRAMES; i++) {
		snprintf(head, sizeof(head), "%d %d", s->number, i);
		if (outbox_send(&op, s->o, text(head), (struct bytes){body, (size_t)i * 10}, &e) <
			0)
			s->failed = true;
	}
	return NULL;
}

/* Whether a frame is the next one of its sender, with the right bytes. */
static bool frame_fits(const struct frame *f, int next[SENDERS])
{
	char head[32] = "";
	int who, i;

	memcpy(head, f->head, f->head_len < 31 ? f->head_len : 31);
	if (sscanf(head, "%d %d", &who, &i) != 2 || who < 0 || who >= SENDERS || i != next[who]++)
		return false;
	for (uint32_t b = 0; b < f->body_len; b++)
		if (f->body[b] != who)
			return false;
	return f->body_len == (uint32_t)i * 10;
}

/* Many threads, a small socket buffer, a reader in odd pieces: every frame whole and in order. */
static void test_many_threads(void)
{
	struct sender senders[SENDERS];
	int fds[2], next[SENDERS] = {0}, frames = 0;
	auto_buf struct buf in = {0};
	struct op op = op_for_cleanup(60);
	struct flusher fl;
	struct outbox o;
	bool good = true;
	struct frame f;
	struct err e;

	socket_pair(fds);
	OK(outbox_init(&o, fds[0], -1, "the peer", &e) == 0);
	flusher_start(&fl, &o);
	for (int i = 0; i < SENDERS; i++) {
		senders[i] = (struct sender){.o = &o, .number = i};
		pthread_create(&senders[i].thread, NULL, send_many, &senders[i]);
	}
	while (good && frames < SENDERS * FRAMES) {
		long n;

		if (io_fill(&op, &in, fds[1], 777, &e) <= 0)
			break;
		while ((n = frame_decode(buf_data(&in), in.len, &limits, &f)) > 0) {
			good &= frame_fits(&f, next);
			frames++;
			buf_drop(&in, (size_t)n);
		}
		good &= n == 0;
	}
	OK(good && frames == SENDERS * FRAMES && in.len == 0);
	for (int i = 0; i < SENDERS; i++) {
		pthread_join(senders[i].thread, NULL);
		OK(!senders[i].failed);
	}
	flusher_end(&fl);
	outbox_done(&o);
	close(fds[0]);
	close(fds[1]);
}

/* Reads all that is there and counts complete frames; -1 if the bytes are not frames. */
static int read_frames(int fd, struct outbox *o)
{
	auto_buf struct buf in = {0};
	int frames = 0, left = 1;
	struct frame f;
	struct err e;
	long n;

	while (left > 0 || in.len) {
		ssize_t got;

		left = outbox_flush(o, &e);
		got = io_fill_now(&in, fd, 65536, &e);
		if (got <= 0 && left == 0)
			break;
		while ((n = frame_decode(buf_data(&in), in.len, &limits, &f)) > 0) {
			frames++;
			buf_drop(&in, (size_t)n);
		}
		if (n < 0)
			return -1;
	}
	return in.len ? -1 : frames;
}

/* If the peer stops reading, memory stays bounded and senders give up at their deadlines; what was
 * queued are complete frames. */
static void test_peer_stops_reading(void)
{
	struct op brief = op_for_cleanup(0.2);
	static uint8_t body[100000];
	int fds[2], sent = 0;
	struct outbox o;
	struct err e;

	socket_pair(fds);
	OK(fd_set_nonblock(fds[1], &e) == 0);
	OK(outbox_init(&o, fds[0], -1, "the peer", &e) == 0);
	while (sent < 1000 &&
		outbox_send(&brief, &o, text("h"), (struct bytes){body, sizeof(body)}, &e) == 0)
		sent++;
	OK(sent > 0 && sent < 20 && e.kind == ERR_TIMEOUT);
	OK(o.waiting.len < 1 << 20);
	OK(read_frames(fds[1], &o) == sent);
	/* The sender that gave up left nothing behind: the next frame follows the one before. */
	brief = op_for_cleanup(10);
	OK(outbox_send(&brief, &o, text("h"), text("b"), &e) == 0);
	OK(read_frames(fds[1], &o) == 1);
	outbox_done(&o);
	close(fds[0]);
	close(fds[1]);
}

struct quitter {
	struct outbox *o;
	struct err e;
	int rc;
};

static void *send_until_error(void *arg)
{
	static const uint8_t body[100000];
	struct op op = op_for_cleanup(60);
	struct quitter *q = arg;

	do {
		q->rc = outbox_send(
			&op, q->o, text("h"), (struct bytes){body, sizeof(body)}, &q->e);
	} while (q->rc == 0);
	return NULL;
}

static void test_quit(void)
{
	int fds[2], quit = eventfd(0, EFD_CLOEXEC);
	struct outbox o;
	struct quitter q = {.o = &o};
	pthread_t thread;
	struct err e;

	socket_pair(fds);
	OK(outbox_init(&o, fds[0], quit, "the peer", &e) == 0);
	pthread_create(&thread, NULL, send_until_error, &q);
	OK(write(quit, &(uint64_t){1}, 8) == 8);
	pthread_join(thread, NULL);
	OK(q.rc < 0 && q.e.kind == ERR_UNAVAILABLE);
	STR_IS(q.e.msg, "the connection to the peer is ending");
	outbox_done(&o);
	close(fds[0]);
	close(fds[1]);
	close(quit);
}

static void test_closed(void)
{
	static const uint8_t body[100000];
	struct op op = op_for_cleanup(10), brief = op_for_cleanup(0.1);
	struct outbox o;
	size_t sent = 4096, frame = FRAME_HEADER + 1 + sizeof(body);
	int fds[2];
	struct err e;

	socket_pair(fds);
	OK(outbox_init(&o, fds[0], -1, "the peer", &e) == 0);
	while (outbox_send(&brief, &o, text("h"), (struct bytes){body, sizeof(body)}, &e) == 0)
		continue;
	OK(read(fds[1], (uint8_t[4096]){0}, 4096) == 4096);
	OK(outbox_flush(&o, &e) == 1);
	outbox_close(&o);
	OK(outbox_flush(&o, &e) < 0 && e.kind == ERR_UNAVAILABLE);
	OK(outbox_send(&op, &o, text("h"), text("b"), &e) < 0 && e.kind == ERR_UNAVAILABLE);
	STR_IS(e.msg, "the connection to the peer is ending");
	shutdown(fds[0], SHUT_WR);
	for (ssize_t n; (n = read(fds[1], (uint8_t[4096]){0}, 4096)) > 0;)
		sent += (size_t)n;
	OK(sent % frame != 0); /* it was closed in mid-frame */
	OK(outbox_rest(&o).len == frame - sent % frame);
	outbox_done(&o);
	close(fds[0]);
	close(fds[1]);
}

static void test_peer_gone(void)
{
	struct op op = op_for_cleanup(10);
	struct outbox o;
	int fds[2];
	struct err e;

	socket_pair(fds);
	OK(outbox_init(&o, fds[0], -1, "the peer", &e) == 0);
	close(fds[1]);
	OK(outbox_send(&op, &o, text("h"), text("b"), &e) < 0 && e.kind == ERR_UNAVAILABLE);
	STR_IS(e.msg, "the peer closed the connection");
	outbox_done(&o);
	close(fds[0]);
}

int main(void)
{
	test_goes_out_at_once();
	test_many_threads();
	test_peer_stops_reading();
	test_quit();
	test_closed();
	test_peer_gone();
	return tap_done();
}
