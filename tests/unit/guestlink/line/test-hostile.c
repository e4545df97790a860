/* The line against guests that break the protocol, fall silent or disappear. */
#include <signal.h>

#include "line-guest.h"

/* Hostile guests: each script answers one EXEC. */

static void bad_head(struct peer *p, uint32_t id)
{
	uint8_t frame[FRAME_HEADER + 6] = {6, 0, 0, 0, 0, 0, 0, 0, 250};

	(void)id;
	peer_put(p, frame, sizeof(frame));
}

static void bad_size(struct peer *p, uint32_t id)
{
	uint8_t header[FRAME_HEADER];

	(void)id;
	frame_encode_header(header, 6, WIRE_PIECE + 1);
	peer_put(p, header, sizeof(header));
}

static void bad_window(struct peer *p, uint32_t id)
{
	static uint8_t piece[WIRE_PIECE];

	/* The host credits what it has consumed, at most once before this ends. */
	for (int i = 0; i < 4096; i++)
		if (!guest_data(p, id, WIRE_STDOUT, piece, sizeof(piece)))
			break;
}

static void bad_stream(struct peer *p, uint32_t id)
{
	guest_data(p, id, WIRE_BODY, "x", 1);
}

static void bad_stream_number(struct peer *p, uint32_t id)
{
	guest_data(p, id, 77, "x", 1);
}

static void bad_end(struct peer *p, uint32_t id)
{
	guest_put(p, (struct wire_msg){.type = WIRE_DONE, .id = id}, NULL, 0);
}

static void bad_credit(struct peer *p, uint32_t id)
{
	guest_put(p, (struct wire_msg){.type = WIRE_CREDIT, .id = id, .count = 1}, NULL, 0);
}

static void bad_pong(struct peer *p, uint32_t id)
{
	(void)id;
	guest_put(p, (struct wire_msg){.type = WIRE_PONG}, NULL, 0);
}

static void bad_empty(struct peer *p, uint32_t id)
{
	guest_data(p, id, WIRE_STDOUT, NULL, 0);
}

static void bad_sizes(struct peer *p, uint32_t id)
{
	guest_put(p, (struct wire_msg){.type = WIRE_EXIT, .id = id, .size = UINT64_MAX}, NULL, 0);
}

static void bad_request(struct peer *p, uint32_t id)
{
	guest_put(p, (struct wire_msg){.type = WIRE_EOF, .id = id}, NULL, 0);
}

static void bad_strays(struct peer *p, uint32_t id)
{
	static uint8_t piece[WIRE_PIECE];

	for (int i = 0; i < 100; i++)
		if (!guest_data(p, id + 1000, WIRE_STDOUT, piece, sizeof(piece)))
			break;
}

static void bad_close(struct peer *p, uint32_t id)
{
	uint8_t header[FRAME_HEADER];

	(void)id;
	frame_encode_header(header, 6, 100);
	peer_put(p, header, sizeof(header));
	shutdown(p->theirs, SHUT_RDWR);
}

static const struct bad {
	const char *what;
	void (*send)(struct peer *p, uint32_t id);
} bads[] = {
	{"a message of unknown type", bad_head},
	{"a message over the limits", bad_size},
	{"data on the wrong stream", bad_stream},
	{"data on no stream", bad_stream_number},
	{"DONE for a command", bad_end},
	{"credit for nothing", bad_credit},
	{"an answer to no PING", bad_pong},
	{"data without a byte", bad_empty},
	{"-1 bytes of output", bad_sizes},
	{"a request to the host", bad_request},
	{"a flood for no operation", bad_strays},
	{"closed in mid-frame", bad_close},
};

static void be_bad(struct peer *p)
{
	const struct bad *bad = p->arg;
	struct got g;

	guest_hello(p);
	if (!guest_get(p, &g))
		return;
	bad->send(p, g.msg.id);
	peer_drain(p);
}

static void test_hostile(void)
{
	for (size_t i = 0; i < ARRAY_LEN(bads); i++) {
		struct peer p;
		struct guest *g = open_line(&p, be_bad, (void *)&bads[i]);
		struct collected c = {0};
		struct guest_exit exit;
		struct err e = {0}, again = {0};
		bool failed = run_exec(g, 20, &c, &exit, &e) < 0 && e.kind == ERR_UNAVAILABLE;
		bool stays = line_failed(g) && run_exec(g, 20, &c, &exit, &again) < 0 &&
			     again.kind == ERR_UNAVAILABLE && strcmp(e.msg, again.msg) == 0;

		tap_ok(failed && stays, "hostile: %s", bads[i].what);
		printf("# %s\n", e.msg);
		collected_free(&c);
		guest_free(g);
		peer_join(&p);
	}
}

/* The client does not read: the guest may fill the window, and no more. */
static int output_waits_for_failure(void *arg, int stream, struct bytes data, struct err *e)
{
	struct guest *g = arg;
	struct op op = op_in(20);

	(void)stream;
	(void)data;
	while (!line_failed(g))
		if (op_pause(&op, 0.01, e) < 0)
			return -1;
	return 0;
}

static void test_window(void)
{
	static const struct bad bad = {"window", bad_window};
	struct peer p;
	struct guest *g = open_line(&p, be_bad, (void *)&bad);
	struct guest_exec req = {.argv = argv_true};
	struct guest_io io = {.output = output_waits_for_failure, .arg = g};
	struct op op = op_in(30);
	struct guest_exit exit;
	struct err e = {0};

	OK(guest_exec(g, &op, &req, &io, &exit, &e) < 0 && e.kind == ERR_UNAVAILABLE);
	STR_IS(e.msg, "the guest runner broke the protocol: more data than its window allows");
	guest_free(g);
	peer_join(&p);
}

static void send_too_much(struct peer *p)
{
	struct got g;

	guest_hello(p);
	if (!guest_get(p, &g))
		return;
	guest_data(p, g.msg.id, WIRE_BODY, "123456", 6);
	peer_drain(p);
}

static void test_read_max(void)
{
	struct peer p;
	struct guest *g = open_line(&p, send_too_much, NULL);
	struct collected c = {0};
	struct guest_io io = {.output = collect, .arg = &c};
	struct op op = op_in(10);
	struct guest_stat st;
	struct err e = {0};

	OK(guest_read(g, &op, &(struct guest_path){.path = "/f"}, 5, &io, &st, &e) < 0);
	OK(e.kind == ERR_UNAVAILABLE && c.data[WIRE_BODY].len == 0 && line_failed(g));
	guest_free(g);
	peer_join(&p);
}

/* Late and repeated ends of finished operations are ignored; the line goes on. */
static void end_twice(struct peer *p)
{
	struct got g;

	guest_hello(p);
	while (guest_get(p, &g)) {
		guest_exit(p, g.msg.id + 5000, 1);
		guest_exit(p, g.msg.id, 0);
		guest_exit(p, g.msg.id, 0);
	}
}

static void test_end_twice(void)
{
	struct peer p;
	struct guest *g = open_line(&p, end_twice, NULL);
	struct collected c = {0};
	struct guest_exit exit;
	struct err e = {0};
	int rc = run_exec(g, 10, &c, &exit, &e);

	/* If the second EXIT comes while the operation still exists, it breaks the protocol. */
	tap_ok(rc == 0 && exit.code == 0, "a command that ended twice ended");
	rc = run_exec(g, 10, &c, &exit, &e);
	tap_ok(rc == 0 || strstr(e.msg, "had ended"),
		"what follows is dropped, or is the line's end");
	guest_free(g);
	peer_join(&p);
}

/* Giving up. */

static void end_when_cancelled(struct peer *p)
{
	struct got g;
	uint64_t credit = 0;

	guest_hello(p);
	while (guest_get_other(p, &g, &credit)) {
		if (g.msg.type == WIRE_EXEC)
			guest_data(p, g.msg.id, WIRE_STDOUT, "some", 4);
		if (g.msg.type == WIRE_CANCEL)
			guest_exit(p, g.msg.id, 0);
		if (g.msg.type == WIRE_MKDIR)
			guest_put(p, (struct wire_msg){.type = WIRE_DONE, .id = g.msg.id}, NULL, 0);
	}
}

static void test_giving_up(void)
{
	struct peer p;
	struct guest *g = open_line(&p, end_when_cancelled, NULL);
	struct collected c = {0};
	struct guest_exec req = {.argv = argv_true};
	struct guest_io io = {.output = collect, .arg = &c};
	struct guest_exit exit;
	struct op op;
	struct err e = {0};
	int64_t start = now_ns();

	/* Waits long enough for output that is there at once, and not much longer. */
	OK(run_exec(g, 2, &c, &exit, &e) < 0 && e.kind == ERR_TIMEOUT);
	OK(now_ns() - start < 6500000000);
	OK(c.data[WIRE_STDOUT].len == 4);

	if (op_init(&op, "test", 10, &e) < 0)
		abort();
	op_cancel(&op);
	OK(guest_exec(g, &op, &req, &io, &exit, &e) < 0 && e.kind == ERR_CANCELLED);
	op_done(&op);

	c.refuse = 1;
	OK(run_exec(g, 10, &c, &exit, &e) < 0 && e.kind == ERR_CANCELLED);
	STR_IS(e.msg, "client gone");

	op = op_in(10);
	OK(guest_mkdir(g, &op, &(struct guest_path){.path = "/d"}, 0, &e) == 0);
	OK(!line_failed(g));
	collected_free(&c);
	guest_free(g);
	peer_join(&p);
}

static void answer_nothing_but_mkdir(struct peer *p)
{
	struct got g;

	guest_hello(p);
	while (guest_get(p, &g))
		if (g.msg.type == WIRE_MKDIR)
			guest_put(p, (struct wire_msg){.type = WIRE_DONE, .id = g.msg.id}, NULL, 0);
}

static void test_never_ends(void)
{
	struct peer p;
	struct guest *g = open_line(&p, answer_nothing_but_mkdir, NULL);
	struct collected c = {0};
	struct guest_exit exit;
	struct op op = op_in(30);
	struct err e = {0};

	OK(run_exec(g, 0.1, &c, &exit, &e) < 0 && e.kind == ERR_TIMEOUT);
	OK(guest_mkdir(g, &op, &(struct guest_path){.path = "/d"}, 0, &e) == 0);
	guest_free(g);
	peer_join(&p);
}

/* A guest that stands still, as in a frozen QEMU, and one that answers while its command runs. */
static void say_nothing(struct peer *p)
{
	guest_hello(p);
	peer_drain(p);
}

static void test_silence(void)
{
	struct peer p;
	struct guest *g = open_patient_line(&p, say_nothing, NULL, 0.2);
	struct collected c = {0};
	struct guest_exit exit;
	struct err e = {0};

	OK(run_exec(g, 30, &c, &exit, &e) < 0 && e.kind == ERR_UNAVAILABLE && line_failed(g));
	STR_IS(e.msg, "the guest has said nothing for 0.2 seconds");
	guest_free(g);
	peer_join(&p);
}

/* A long command: it ends after the guest was asked often enough to show that answers count. */
static void answer_pings(struct peer *p)
{
	struct got g;
	uint32_t id = 0;

	guest_hello(p);
	for (int asked = 0; asked < 5 && guest_get(p, &g);) {
		if (g.msg.type == WIRE_EXEC)
			id = g.msg.id;
		if (g.msg.type != WIRE_PING)
			continue;
		guest_put(p, (struct wire_msg){.type = WIRE_PONG}, NULL, 0);
		asked++;
	}
	guest_exit(p, id, 7);
	peer_drain(p);
}

static void test_answers_in_silence(void)
{
	struct peer p;
	struct guest *g = open_patient_line(&p, answer_pings, NULL, 2);
	struct collected c = {0};
	struct guest_exit exit;
	struct err e = {0};

	OK(run_exec(g, 60, &c, &exit, &e) == 0 && exit.code == 7);
	OK(!line_failed(g));
	guest_free(g);
	peer_join(&p);
}

/* A VM that a driver has stopped is not asked, and may be silent. */
static void test_standing_still(void)
{
	struct peer p;
	struct guest *g = open_patient_line(&p, say_nothing, NULL, 0.2);
	struct collected c = {0};
	struct guest_exit exit;
	struct err e = {0};

	guest_stand_still(g, true);
	OK(run_exec(g, 1, &c, &exit, &e) < 0 && e.kind == ERR_TIMEOUT && !line_failed(g));
	guest_stand_still(g, false);
	OK(run_exec(g, 30, &c, &exit, &e) < 0 && e.kind == ERR_UNAVAILABLE);
	guest_free(g);
	peer_join(&p);
}

static void *fail_later(void *arg)
{
	struct op op = op_in(0.2);
	struct err e;

	op_pause(&op, 1, &e);
	line_fail(arg, "the VM has stopped");
	return NULL;
}

static void test_line_fail(void)
{
	struct peer p;
	struct guest *g = open_line(&p, answer_nothing_but_mkdir, NULL);
	struct collected c = {0};
	struct guest_exit exit;
	pthread_t thread;
	struct err e = {0};

	pthread_create(&thread, NULL, fail_later, g);
	OK(run_exec(g, 30, &c, &exit, &e) < 0 && e.kind == ERR_UNAVAILABLE);
	STR_IS(e.msg, "the VM has stopped");
	pthread_join(thread, NULL);
	line_fail(g, "another reason");
	OK(run_exec(g, 30, &c, &exit, &e) < 0);
	STR_IS(e.msg, "the VM has stopped");
	guest_free(g);
	peer_join(&p);
}

/* A guest that does not read for a while: one operation gives up, the frames stay whole. */
static void read_late(struct peer *p)
{
	struct got g;
	int *go = p->arg;

	guest_hello(p);
	if (read(*go, &g, 1) != 1)
		return;
	while (guest_get(p, &g)) {
		if (g.msg.type == WIRE_CANCEL || g.msg.type == WIRE_MKDIR)
			guest_put(p, (struct wire_msg){.type = WIRE_DONE, .id = g.msg.id}, NULL, 0);
	}
}

static void *write_stuck(void *arg)
{
	struct guest *g = arg;
	struct guest_write req = {.at = {.path = "/f"}};
	static uint8_t content[WIRE_WINDOW];
	struct inbox *in = NULL;
	struct op op = op_in(0.3);
	struct guest_stat st;
	struct err e = {0};

	if (inbox_new(MIB, &in, &e) < 0)
		abort();
	inbox_put(in, GUEST_INPUT_DATA, 0, 0, (struct bytes){content, sizeof(content)}, &e);
	struct guest_io io = {.in = in};
	int rc = guest_write(g, &op, &req, &io, &st, &e);

	inbox_free(in);
	return (void *)(intptr_t)(rc < 0 && e.kind == ERR_TIMEOUT);
}

static void test_stall(void)
{
	enum { WRITERS = 8 };
	struct peer p;
	int go[2];
	pthread_t threads[WRITERS];
	struct op op = op_in(60);
	struct guest *g;
	struct err e = {0};
	int timed_out = 0;

	if (pipe(go) < 0)
		abort();
	g = open_line(&p, read_late, &go[0]);
	for (int i = 0; i < WRITERS; i++)
		pthread_create(&threads[i], NULL, write_stuck, g);
	op_pause(&op, 1, &e); /* all their deadlines have passed, and CANCELs are waiting */
	if (write(go[1], "x", 1) != 1)
		abort();
	for (int i = 0; i < WRITERS; i++) {
		void *good;

		pthread_join(threads[i], &good);
		timed_out += (int)(intptr_t)good;
	}
	OK(timed_out == WRITERS);
	OK(guest_mkdir(g, &op, &(struct guest_path){.path = "/d"}, 0, &e) == 0);
	OK(!line_failed(g));
	guest_free(g);
	peer_join(&p);
	close(go[0]);
	close(go[1]);
}

/* Another line on the same connection. */
static void greet_twice(struct peer *p)
{
	struct got g;

	guest_hello(p);
	guest_data(p, 1, WIRE_STDOUT, "stale", 5);
	while (guest_get(p, &g)) {
		struct wire_msg reply = {.type = WIRE_HELLO_REPLY, .version = WIRE_VERSION};

		memcpy(reply.nonce, g.msg.nonce, WIRE_NONCE);
		if (g.msg.type == WIRE_HELLO)
			guest_put(p, reply, NULL, 0);
		else
			guest_exit(p, g.msg.id, 9);
	}
}

static void test_reopen(void)
{
	struct peer p;
	struct op op = op_in(10);
	struct collected c = {0};
	struct guest_exit exit;
	struct guest *g = NULL;
	struct err e = {0};
	int fd = peer_start(&p, greet_twice, NULL);

	OK(line_open(&op, dup(fd), 0, &g, &e) == 0);
	line_fail(g, "port closed");
	guest_free(g);
	g = NULL;
	OK(line_open(&op, fd, 0, &g, &e) == 0);
	OK(run_exec(g, 10, &c, &exit, &e) == 0 && exit.code == 9);
	guest_free(g);
	peer_join(&p);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	test_hostile();
	test_window();
	test_read_max();
	test_end_twice();
	test_giving_up();
	test_never_ends();
	test_silence();
	test_answers_in_silence();
	test_standing_still();
	test_line_fail();
	test_stall();
	test_reopen();
	return tap_done();
}
