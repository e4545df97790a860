/* The runner with a host that closes the line, starts anew, or breaks the protocol. */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "runner-peer.h"
#include "tap.h"

enum { SECOND = 1000 };

/* Starts a command that prints its pid, and returns that. */
static pid_t start_sleeper(struct peer *p, struct job *j)
{
	struct peer_bytes body;
	struct wire_msg m;
	pid_t pid = 0;

	*j = (struct job){.argv = SH("echo $$; exec sleep 1000")};
	job_start(p, j);
	OK(peer_next(p, 10 * SECOND, &m, &body) && sscanf(body.p, "%d", &pid) == 1);
	return pid;
}

static void says_hi(struct peer *p)
{
	struct job j = {.argv = ARGV("echo", "hi")};

	job_run(p, &j);
	STR_IS(j.out.p, "hi\n");
	job_free(&j);
}

static void test_garbage_before_hello(void)
{
	struct wire_msg hello = {.type = WIRE_HELLO, .version = WIRE_VERSION}, m;
	uint8_t cut[FRAME_HEADER + WIRE_HEAD_MAX];
	struct peer_bytes body;
	struct peer p;
	size_t n = wire_encode(&hello, cut + FRAME_HEADER);

	peer_start_raw(&p);
	peer_write(&p, "\0\0\0\31\31\0\0garbage\xff\xff\xff\xff\xff\xff\xff\xff", 22);
	peer_send(&p, &(struct wire_msg){.type = WIRE_PING, .id = 1}, NULL, 0);
	OK(!peer_next(&p, 300, &m, &body)); /* the runner sends nothing before HELLO */
	frame_encode_header(cut, (uint32_t)n, 0);
	peer_write(&p, cut, 15); /* a host that died in the middle of its HELLO */
	OK(peer_hello(&p, 10 * SECOND));
	says_hi(&p);
	peer_stop(&p);
}

static void test_second_hello(void)
{
	struct peer p;
	struct job j;
	pid_t pid;

	peer_start(&p);
	pid = start_sleeper(&p, &j);
	OK(peer_hello(&p, 10 * SECOND));
	OK(wait_until(process_gone, &pid));
	p.next_id = j.id; /* ids begin anew as well */
	says_hi(&p);
	peer_stop(&p);
}

static void test_nonsense(void)
{
	static const uint8_t oversized[] = {0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0};
	struct peer p;
	struct job j;
	pid_t pid;

	peer_start(&p);
	pid = start_sleeper(&p, &j);
	peer_write(&p, oversized, sizeof(oversized));
	OK(wait_until(process_gone, &pid));
	OK(peer_hello(&p, 10 * SECOND));
	says_hi(&p);

	/* a message that only a guest sends; a head that is cut; strings that are missing */
	peer_send(&p, &(struct wire_msg){.type = WIRE_EXIT, .id = 9}, NULL, 0);
	OK(peer_hello(&p, 10 * SECOND));
	peer_write(&p, "\6\0\0\0\0\0\0\0\2\0\0\0\0\0", 14);
	OK(peer_hello(&p, 10 * SECOND));
	peer_send(&p, &(struct wire_msg){.type = WIRE_EXEC, .id = 9, .count = 3}, "\0\0a", 4);
	OK(peer_hello(&p, 10 * SECOND));
	peer_send(&p, &(struct wire_msg){.type = WIRE_EXEC, .id = 9, .count = ~0u}, "\0\0a", 4);
	OK(peer_hello(&p, 10 * SECOND));
	peer_send(&p, &(struct wire_msg){.type = WIRE_READ, .id = 9}, "\0\0no end", 8);
	OK(peer_hello(&p, 10 * SECOND));

	/* an id in use, more than the window, more credit than was spent */
	pid = start_sleeper(&p, &j);
	peer_send(&p, &(struct wire_msg){.type = WIRE_READ, .id = j.id}, "\0\0/etc/passwd", 14);
	OK(wait_until(process_gone, &pid));
	OK(peer_hello(&p, 10 * SECOND));
	pid = start_sleeper(&p, &j);
	job_order(&p, &j, &(struct wire_msg){.type = WIRE_CREDIT, .count = WIRE_WINDOW});
	OK(wait_until(process_gone, &pid));
	OK(peer_hello(&p, 10 * SECOND));
	says_hi(&p);
	peer_stop(&p);
}

static void test_window(void)
{
	static char piece[WIRE_PIECE];
	struct job j = {
		.argv = SH("echo $$; exec sleep 1000"), .input = "", .keep_input_open = true};
	struct wire_msg m, data = {.type = WIRE_DATA, .stream = WIRE_BODY};
	struct peer_bytes body;
	struct peer p;
	pid_t pid = 0;

	peer_start(&p);
	job_start(&p, &j);
	OK(peer_next(&p, 10 * SECOND, &m, &body) && sscanf(body.p, "%d", &pid) == 1);
	data.id = j.id;
	for (int i = 0; i < 4; i++)
		peer_send(&p, &data, piece, sizeof(piece)); /* what a host may send */
	pause_ms(300);
	OK(!process_gone(&pid));
	for (int i = 0; i < 2; i++) /* the pipe holds one */
		peer_send(&p, &data, piece, sizeof(piece));
	OK(wait_until(process_gone, &pid));
	OK(peer_hello(&p, 10 * SECOND));
	peer_stop(&p);
}

/* Messages for an operation that has just ended are no error. */
static void test_late_messages(void)
{
	struct wire_msg m = {.type = WIRE_PING, .id = 77};
	struct peer_bytes body;
	struct peer p;

	peer_start(&p);
	for (unsigned type = WIRE_DATA; type <= WIRE_CANCEL; type++)
		peer_send(&p, &(struct wire_msg){.type = type, .id = 5}, "x", type == WIRE_DATA);
	peer_send(&p, &m, NULL, 0);
	OK(peer_next(&p, 10 * SECOND, &m, &body) && m.type == WIRE_PONG && m.id == 77);
	peer_stop(&p);
}

static void test_too_many(void)
{
	struct peer_bytes body;
	struct wire_msg m = {0};
	struct peer p;
	unsigned refused = 0;

	peer_start(&p);
	for (unsigned id = 1; id <= WIRE_CHANNELS_MAX + 1; id++)
		peer_send(&p, &(struct wire_msg){.type = WIRE_WRITE, .id = id}, "\0\0/dev/null",
			sizeof("\0\0/dev/null"));
	while (peer_next(&p, refused ? 300 : PATIENCE_MS, &m, &body))
		refused += m.type == WIRE_DONE && m.code == EAGAIN && m.id == WIRE_CHANNELS_MAX + 1;
	OK(refused == 1);
	OK(peer_hello(&p, 10 * SECOND));
	says_hi(&p);
	peer_stop(&p);
}

/* The line hangs up, or the runner is killed: its commands end. */
static void test_end(void)
{
	struct peer p;
	struct job j;
	pid_t pid;

	peer_start(&p);
	pid = start_sleeper(&p, &j);
	kill(p.pid, SIGTERM); /* ignored: it is not from init */
	kill(p.pid, SIGHUP);
	says_hi(&p);
	OK(!process_gone(&pid));
	peer_stop(&p);
	OK(wait_until(process_gone, &pid));

	peer_start(&p);
	pid = start_sleeper(&p, &j);
	kill(p.pid, SIGKILL);
	OK(wait_until(process_gone, &pid));
	close(p.fd);
	free(p.in);
}

int main(void)
{
	test_garbage_before_hello();
	test_second_hello();
	test_nonsense();
	test_window();
	test_late_messages();
	test_too_many();
	test_end();
	return tap_done();
}
