/* The line against a guest that keeps to the protocol. */
#include <signal.h>

#include "guestlink/line/channel.h"
#include "line-guest.h"

/* Greetings. */

static void greet_after_garbage(struct peer *p)
{
	uint8_t junk[3000];
	struct got g;
	struct wire_msg old = {.type = WIRE_HELLO_REPLY, .version = WIRE_VERSION};

	memset(junk, 0x1d, sizeof(junk)); /* 0x1d: looks like a head length */
	if (!guest_get(p, &g))
		return;
	peer_put(p, junk, sizeof(junk));
	guest_put(p, old, NULL, 0); /* an earlier nonce */
	peer_put(p, junk, 7);
	memcpy(old.nonce, g.msg.nonce, WIRE_NONCE);
	guest_put(p, old, NULL, 0);
	if (guest_get(p, &g))
		guest_exit(p, g.msg.id, 3);
	peer_drain(p);
}

static void greet_endless(struct peer *p)
{
	static uint8_t junk[65536];

	while (peer_put(p, junk, sizeof(junk)))
		;
}

static void greet_version(struct peer *p)
{
	struct got g;
	struct wire_msg reply = {.type = WIRE_HELLO_REPLY, .version = 99};

	if (!guest_get(p, &g))
		return;
	memcpy(reply.nonce, g.msg.nonce, WIRE_NONCE);
	guest_put(p, reply, NULL, 0);
	peer_drain(p);
}

static void greet_and_close(struct peer *p)
{
	struct got g;

	guest_get(p, &g);
	peer_put(p, "half", 4);
}

static void refuse_greeting(
	void (*script)(struct peer *), double limit, enum err_kind kind, const char *what)
{
	struct peer p;
	struct guest *g = NULL;
	struct op op = op_in(limit);
	struct err e = {0};
	int fd = peer_start(&p, script, NULL);

	tap_ok(line_open(&op, fd, 0, &g, &e) < 0 && e.kind == kind && !g, "greeting: %s", what);
	printf("# %s\n", e.msg);
	close(fd);
	peer_join(&p);
}

static void test_greetings(void)
{
	struct peer p;
	struct guest *g = open_line(&p, greet_after_garbage, NULL);
	struct collected c = {0};
	struct guest_exit exit;
	struct err e;

	OK(run_exec(g, 10, &c, &exit, &e) == 0 && exit.code == 3);
	STR_IS(guest_link_name(g), "runner");
	OK(guest_can_be_cut_off(g) && !guest_is_cut_off(g));
	guest_free(g);
	peer_join(&p);
	refuse_greeting(greet_endless, 20, ERR_UNAVAILABLE, "endless garbage");
	refuse_greeting(greet_version, 20, ERR_UNSUPPORTED, "another version");
	refuse_greeting(greet_and_close, 20, ERR_UNAVAILABLE, "closed");
	refuse_greeting(peer_drain, 0.1, ERR_TIMEOUT, "no answer");
}

static void test_hello_find(void)
{
	struct wire_msg reply = {.type = WIRE_HELLO_REPLY, .version = 1, .nonce = {5, 6, 7}}, got;
	uint8_t bytes[10 + FRAME_HEADER + WIRE_HEAD_MAX] = {0};
	size_t n = wire_encode(&reply, bytes + 10 + FRAME_HEADER);

	frame_encode_header(bytes + 10, (uint32_t)n, 0);
	OK(n + FRAME_HEADER == HELLO_REPLY_SIZE);
	OK(hello_find(bytes, sizeof(bytes), reply.nonce, &got) == 10 + HELLO_REPLY_SIZE);
	OK(hello_find(bytes, 10 + HELLO_REPLY_SIZE - 1, reply.nonce, &got) == 0);
	bytes[10 + FRAME_HEADER] = WIRE_PONG;
	OK(hello_find(bytes, sizeof(bytes), reply.nonce, &got) == 0);
	OK(hello_find(bytes, 0, reply.nonce, &got) == 0);
}

/* Ends of commands. */

static const struct {
	struct wire_msg msg;
	const char *body;
	struct guest_exit want;
} ends[] = {
	{{.how = WIRE_EXITED, .code = 0}, "", {.code = 0}},
	{{.how = WIRE_EXITED, .code = 42, .size = 7, .size2 = 8}, "",
		{.code = 42, .stdout_bytes = 7, .stderr_bytes = 8}},
	{{.how = WIRE_SIGNALED, .code = 11}, "", {.code = 139, .signal = 11}},
	{{.how = WIRE_SIGNALED, .code = 9, .timed_out = 1}, "",
		{.code = 124, .signal = 9, .timed_out = true}},
	{{.how = WIRE_NO_USER, .code = 2}, "no such user: bob",
		{.stage = GUEST_NO_USER, .code = 126, .sys = 2, .message = "no such user: bob"}},
	{{.how = WIRE_NO_CWD, .code = 20}, "", {.stage = GUEST_NO_CWD, .code = 126, .sys = 20}},
	{{.how = WIRE_NO_EXEC, .code = 2}, "a\n\x1b[2J",
		{.stage = GUEST_NO_EXEC, .code = 127, .sys = 2, .message = "a\\x0a\\x1b[2J"}},
	{{.how = WIRE_NO_EXEC, .code = 13}, "", {.stage = GUEST_NO_EXEC, .code = 126, .sys = 13}},
};

static void end_all(struct peer *p)
{
	struct got g;

	guest_hello(p);
	for (size_t i = 0; guest_get(p, &g); i++) {
		struct wire_msg msg = ends[i % ARRAY_LEN(ends)].msg;
		const char *body = ends[i % ARRAY_LEN(ends)].body;

		msg.type = WIRE_EXIT;
		msg.id = g.msg.id;
		guest_put(p, msg, body, (uint32_t)strlen(body));
	}
}

static void test_ends(void)
{
	struct peer p;
	struct guest *g = open_line(&p, end_all, NULL);
	struct collected c = {0};
	struct err e;

	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		const struct guest_exit *want = &ends[i].want;
		struct guest_exit x;
		int good = run_exec(g, 10, &c, &x, &e) == 0 && x.stage == want->stage &&
			   x.code == want->code && x.signal == want->signal && x.sys == want->sys &&
			   x.timed_out == want->timed_out && x.stdout_bytes == want->stdout_bytes &&
			   x.stderr_bytes == want->stderr_bytes &&
			   strcmp(x.message, want->message) == 0;

		tap_ok(good, "end %zu of a command", i);
	}
	guest_free(g);
	peer_join(&p);
}

static void check_request(struct peer *p)
{
	struct got g;
	static const char want[] = "bob\0/tmp\0echo\0a b\0X=1\0Y=\0";

	guest_hello(p);
	while (guest_get(p, &g)) {
		bool good = g.msg.type == WIRE_EXEC && g.msg.count == 2 && g.msg.count2 == 2 &&
			    g.msg.timeout_ms == 1500 && g.msg.max == 100 && g.msg.rows == 24 &&
			    g.msg.cols == 80 &&
			    g.msg.flags == (WIRE_EXEC_PTY | WIRE_EXEC_CAPTURE) &&
			    g.len == sizeof(want) - 1 && memcmp(g.body, want, g.len) == 0;

		guest_exit(p, g.msg.id, good ? 0 : 1);
	}
}

static void test_request(void)
{
	const char *const argv[] = {"echo", "a b", NULL}, *const env[] = {"X=1", "Y=", NULL};
	struct guest_exec req = {.argv = argv,
		.env = env,
		.user = "bob",
		.cwd = "/tmp",
		.timeout = 1.5,
		.capture_max = 100,
		.tty = true,
		.rows = 24,
		.cols = 80};
	struct peer p;
	struct guest *g = open_line(&p, check_request, NULL);
	struct collected c = {0};
	struct guest_io io = {.output = collect, .arg = &c};
	struct op op = op_in(10);
	struct guest_exit exit;
	struct err e;
	const char *const none[] = {NULL}, *const bad_env[] = {"novalue", NULL};
	auto_free char *huge = malloc(WIRE_STRINGS_MAX + 1);
	const char *const long_argv[] = {"echo", huge, NULL};

	OK(guest_exec(g, &op, &req, &io, &exit, &e) == 0 && exit.code == 0);
	req.env = bad_env;
	OK(guest_exec(g, &op, &req, &io, &exit, &e) < 0 && e.kind == ERR_INVALID);
	req.env = NULL;
	req.argv = none;
	OK(guest_exec(g, &op, &req, &io, &exit, &e) < 0 && e.kind == ERR_INVALID);
	memset(huge, 'x', WIRE_STRINGS_MAX);
	huge[WIRE_STRINGS_MAX] = 0;
	req.argv = long_argv;
	OK(guest_exec(g, &op, &req, &io, &exit, &e) < 0 && e.kind == ERR_LIMIT);
	OK(e.sys == E2BIG);
	STR_IS(e.msg, "command line too long");
	guest_free(g);
	peer_join(&p);
}

/* Data. */

static void send_much(struct peer *p)
{
	static uint8_t piece[WIRE_PIECE];
	struct got g;
	uint64_t sent = 0, credit = 0, total = 8 * MIB;
	uint32_t id;

	guest_hello(p);
	if (!guest_get(p, &g))
		return;
	id = g.msg.id;
	while (sent < total) {
		/* the last string has to fit, too */
		while (sent + sizeof(piece) + 4 > credit + WIRE_WINDOW && guest_get(p, &g))
			credit += g.msg.type == WIRE_CREDIT ? g.msg.count : 0;
		for (size_t i = 0; i < sizeof(piece); i++)
			piece[i] = (uint8_t)((sent + i) * 7 / 3);
		guest_data(p, id, WIRE_STDOUT, piece, sizeof(piece));
		sent += sizeof(piece);
	}
	guest_data(p, id, WIRE_STDERR, "warn", 4);
	guest_exit(p, id, 0);
	peer_drain(p);
}

static void test_output(void)
{
	struct peer p;
	struct guest *g = open_line(&p, send_much, NULL);
	struct collected c = {0};
	struct guest_exit exit;
	struct err e;
	bool same = true;

	OK(run_exec(g, 30, &c, &exit, &e) == 0);
	OK(c.data[WIRE_STDOUT].len == 8 * MIB && c.data[WIRE_STDERR].len == 4);
	for (size_t i = 0; i < c.data[WIRE_STDOUT].len; i++)
		same = same && buf_data(&c.data[WIRE_STDOUT])[i] == (uint8_t)(i * 7 / 3);
	tap_ok(same, "8 MiB arrived unchanged");
	collected_free(&c);
	guest_free(g);
	peer_join(&p);
}

/* Receives a file and checks that the host keeps to the window; answers with the file's sum as its
 * mode. */
static void take_file(struct peer *p)
{
	struct got g;
	uint64_t taken = 0, in_window = 0;
	uint32_t sum = 0, id;

	guest_hello(p);
	if (!guest_get(p, &g))
		return;
	id = g.msg.id;
	while (guest_get(p, &g) && g.msg.type == WIRE_DATA) {
		for (uint32_t i = 0; i < g.len; i++)
			sum = sum * 31 + g.body[i];
		taken += g.len;
		in_window += g.len;
		if (in_window > WIRE_WINDOW)
			sum = 0;
		if (in_window == WIRE_WINDOW) { /* as late as possible */
			guest_put(p,
				(struct wire_msg){
					.type = WIRE_CREDIT, .id = id, .count = WIRE_WINDOW},
				NULL, 0);
			in_window = 0;
		}
	}
	if (g.msg.type == WIRE_EOF)
		guest_put(p,
			(struct wire_msg){.type = WIRE_DONE, .id = id, .size = taken, .mode = sum},
			NULL, 0);
	peer_drain(p);
}

static void test_input(void)
{
	struct peer p;
	struct guest *g = open_line(&p, take_file, NULL);
	struct guest_write req = {.at = {.path = "/f"}, .parents = true};
	struct collected c = {0};
	auto_inbox struct inbox *in = NULL;
	static uint8_t content[3 * MIB + 5];
	struct op op = op_in(30);
	struct guest_stat st;
	struct err e;
	uint32_t sum = 0;

	for (size_t i = 0; i < sizeof(content); i++) {
		content[i] = (uint8_t)(i * 11 / 7);
		sum = sum * 31 + content[i];
	}
	if (inbox_new(8 * MIB, &in, &e) < 0)
		abort();
	for (size_t at = 0; at < sizeof(content); at += MIB) {
		size_t n = sizeof(content) - at < MIB ? sizeof(content) - at : MIB;

		inbox_put(in, GUEST_INPUT_DATA, 0, 0, (struct bytes){content + at, n}, &e);
	}
	inbox_put(in, GUEST_INPUT_EOF, 0, 0, (struct bytes){0}, &e);
	struct guest_io io = {.in = in, .consumed = count_consumed, .arg = &c};
	OK(guest_write(g, &op, &req, &io, &st, &e) == 0);
	OK(st.size == sizeof(content) && st.mode == sum && c.consumed == sizeof(content));
	guest_free(g);
	peer_join(&p);
}

/* Signals and sizes are passed on; input that the command does not read is taken and credited. */
static void echo_controls(struct peer *p)
{
	struct got g;
	uint32_t id;

	guest_hello(p);
	if (!guest_get(p, &g))
		return;
	id = g.msg.id;
	if (guest_get(p, &g) && g.msg.type == WIRE_SIGNAL && g.msg.code == 15 && guest_get(p, &g) &&
		g.msg.type == WIRE_RESIZE && g.msg.rows == 30 && g.msg.cols == 100)
		guest_exit(p, id, 7);
	else
		guest_exit(p, id, 1);
	peer_drain(p);
}

static void test_controls(void)
{
	struct peer p;
	struct guest *g = open_line(&p, echo_controls, NULL);
	struct guest_exec req = {.argv = argv_true};
	struct collected c = {0};
	auto_inbox struct inbox *in = NULL;
	struct op op = op_in(10);
	struct guest_exit exit = {0};
	struct err e;

	if (inbox_new(MIB, &in, &e) < 0)
		abort();
	inbox_put(in, GUEST_INPUT_DATA, 0, 0, (struct bytes){(const uint8_t *)"abc", 3}, &e);
	inbox_put(in, GUEST_INPUT_EOF, 0, 0, (struct bytes){0}, &e);
	inbox_put(in, GUEST_INPUT_SIGNAL, 15, 0, (struct bytes){0}, &e);
	inbox_put(in, GUEST_INPUT_RESIZE, 30, 100, (struct bytes){0}, &e);
	struct guest_io io = {.in = in, .output = collect, .consumed = count_consumed, .arg = &c};
	OK(guest_exec(g, &op, &req, &io, &exit, &e) == 0 && exit.code == 7 && c.consumed == 3);
	guest_free(g);
	peer_join(&p);
}

/* Files. */

static void answer_errno(struct peer *p)
{
	struct got g;
	const struct {
		uint32_t code;
		const char *text;
	} answers[] = {{2, ""}, {13, "/x: Permission denied"}, {21, ""}, {27, ""}, {28, ""},
		{0xffffffff, "\x1b]0;x"}};

	guest_hello(p);
	for (size_t i = 0; guest_get(p, &g); i++)
		guest_put(p,
			(struct wire_msg){.type = WIRE_DONE,
				.id = g.msg.id,
				.code = answers[i % ARRAY_LEN(answers)].code},
			answers[i % ARRAY_LEN(answers)].text,
			(uint32_t)strlen(answers[i % ARRAY_LEN(answers)].text));
}

static void test_errno(void)
{
	struct peer p;
	struct guest *g = open_line(&p, answer_errno, NULL);
	struct guest_path at = {.path = "/x"};
	struct collected c = {0};
	struct guest_io io = {.output = collect, .arg = &c};
	struct op op = op_in(10);
	struct guest_stat st;
	struct err e;

	OK(guest_read(g, &op, &at, 0, &io, &st, &e) < 0 && e.kind == ERR_NOT_FOUND && e.sys == 2);
	STR_IS(e.msg, "/x: No such file or directory");
	OK(guest_mkdir(g, &op, &at, 0, &e) < 0 && e.kind == ERR_PERMISSION && e.sys == 13);
	STR_IS(e.msg, "/x: Permission denied");
	OK(guest_symlink(g, &op, &at, "t", &e) < 0 && e.kind == ERR_IS_DIR);
	OK(guest_read(g, &op, &at, 5, &io, &st, &e) < 0 && e.kind == ERR_LIMIT);
	OK(guest_mkdir(g, &op, &at, 0, &e) < 0 && e.kind == ERR_BACKEND && e.sys == ENOSPC);
	OK(guest_mkdir(g, &op, &at, 0, &e) < 0 && e.kind == ERR_BACKEND && e.sys == EIO);
	STR_IS(e.msg, "\\x1b]0;x");
	guest_free(g);
	peer_join(&p);
}

static uint32_t put_entry(uint8_t *out, const char *name)
{
	struct wire_entry entry = {.mode = 0100644, .size = 5, .name = name, .target = ""};

	return (uint32_t)wire_put_entry(&entry, out);
}

/* Listings, chosen by the path of the request. */
static void answer_list(struct peer *p)
{
	static uint8_t out[2 * WIRE_ENTRY_MAX];
	struct got g;

	guest_hello(p);
	while (guest_get(p, &g)) {
		const char *path = (const char *)g.body + 2; /* no user, no cwd */
		uint32_t id = g.msg.id, n = 0;

		if (g.msg.type != WIRE_LIST)
			continue;
		if (strcmp(path, "/two") == 0) {
			n = put_entry(out, "one");
			n += put_entry(out + n, "two");
			guest_data(p, id, WIRE_BODY, out, n - 3); /* cut in the second name */
			guest_data(p, id, WIRE_BODY, out + n - 3, 3);
		} else {
			n = put_entry(out, path + 1);
			if (strcmp(path, "/cut") == 0)
				n--;
			guest_data(p, id, WIRE_BODY, out, n);
		}
		guest_put(p, (struct wire_msg){.type = WIRE_DONE, .id = id}, NULL, 0);
	}
}

static int count_entry(void *arg, const struct guest_entry *entry, struct err *e)
{
	(void)e;
	*(int *)arg += strcmp(entry->name, "one") == 0 || strcmp(entry->name, "two") == 0 ? 1 : 100;
	return 0;
}

static int list(struct guest *g, const char *path, struct err *e)
{
	struct op op = op_in(10);
	int count = 0;

	return guest_list(g, &op, &(struct guest_path){.path = path}, count_entry, &count, e) < 0
		       ? -1
		       : count;
}

static void test_list(void)
{
	struct peer p;
	struct guest *g = open_line(&p, answer_list, NULL);
	struct err e;

	OK(list(g, "/two", &e) == 2);
	OK(list(g, "/..", &e) == -1 && e.kind == ERR_UNAVAILABLE);
	OK(list(g, "/../etc/passwd", &e) == -1 && e.kind == ERR_UNAVAILABLE);
	OK(list(g, "/cut", &e) == -1 && e.kind == ERR_UNAVAILABLE);
	OK(list(g, "/", &e) == 100);
	OK(!line_failed(g));
	guest_free(g);
	peer_join(&p);
}

/* Many at once. */

static void echo_many(struct peer *p)
{
	struct got g;
	uint64_t credit = 0;

	guest_hello(p);
	while (guest_get_other(p, &g, &credit)) {
		guest_data(p, g.msg.id, WIRE_STDOUT, &g.msg.id, sizeof(g.msg.id));
		guest_exit(p, g.msg.id, g.msg.id & 0xff);
	}
}

static void *exec_many(void *arg)
{
	intptr_t bad = 0;

	for (int i = 0; i < 5; i++) {
		struct collected c = {0};
		struct guest_exit exit = {0};
		struct err e;
		uint32_t id;

		if (run_exec(arg, 60, &c, &exit, &e) < 0 || c.data[WIRE_STDOUT].len != sizeof(id)) {
			bad++;
		} else {
			memcpy(&id, buf_data(&c.data[WIRE_STDOUT]), sizeof(id));
			bad += exit.code != (int)(id & 0xff);
		}
		collected_free(&c);
	}
	return (void *)bad;
}

static void test_many(void)
{
	enum { THREADS = 200 };
	static pthread_t threads[THREADS];
	struct peer p;
	struct guest *g = open_line(&p, echo_many, NULL);
	pthread_attr_t attr;
	intptr_t bad = 0;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 * 1024);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], &attr, exec_many, g))
			abort();
	for (int i = 0; i < THREADS; i++) {
		void *got;

		pthread_join(threads[i], &got);
		bad += (intptr_t)got;
	}
	tap_ok(bad == 0, "%d threads ran 5 commands each", THREADS);
	pthread_attr_destroy(&attr);
	guest_free(g);
	peer_join(&p);
}

/* The guest's clock stands still with its VM: what commands have for their time counts it. */

static void test_standing_still(void)
{
	const struct channel_rules rules = {.end = WIRE_DONE};
	struct peer p;
	struct guest *g = open_line(&p, echo_many, NULL);
	struct channel *c = NULL;
	int64_t once, now;
	struct err e;

	if (channel_open(g, &rules, &c, &e) < 0)
		abort();
	OK(channel_stood_ns(c) == 0);
	for (now = now_ns(), guest_stand_still(g, true); now_ns() == now;)
		;
	once = channel_stood_ns(c);
	OK(once > 0);
	guest_stand_still(g, true); /* it does so already */
	OK(channel_stood_ns(c) >= once);
	guest_stand_still(g, false);
	once = channel_stood_ns(c);
	for (now = now_ns(); now_ns() == now;)
		;
	OK(channel_stood_ns(c) == once);
	guest_stand_still(g, true);
	guest_stand_still(g, false);
	OK(channel_stood_ns(c) >= once);
	channel_close(c);
	guest_free(g);
	peer_join(&p);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	test_hello_find();
	test_greetings();
	test_ends();
	test_request();
	test_output();
	test_input();
	test_controls();
	test_errno();
	test_list();
	test_many();
	test_standing_still();
	return tap_done();
}
