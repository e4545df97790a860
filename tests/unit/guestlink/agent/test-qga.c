/* The guest agent's client against agents that answer well, badly, late or never. */
#include <signal.h>

#include "agent-peer.h"
#include "wire/base64.h"
#include "util/auto.h"
#include "util/str.h"

enum { MIB = 1024 * 1024 };

static struct bytes text_bytes(const char *s)
{
	return (struct bytes){(const uint8_t *)s, strlen(s)};
}

/* Pure parts. */

static void test_base64(void)
{
	static const char *const pairs[][2] = {
		{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}};
	static const char *const bad[] = {
		"Z", "Zg=", "Z===", "====", "Zg==Zg==", "Zm9\n", "Zm 9", "Zm9v\xff===", "Z=g="};
	char out[16];

	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		auto_buf struct buf b = {0};

		base64_encode(text_bytes(pairs[i][0]), out);
		tap_ok(strcmp(out, pairs[i][1]) == 0, "base64 of \"%s\"", pairs[i][0]);
		tap_ok(base64_decode(pairs[i][1], strlen(pairs[i][1]), &b) &&
				b.len == strlen(pairs[i][0]) &&
				(!b.len || memcmp(buf_data(&b), pairs[i][0], b.len) == 0),
			"and back");
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		auto_buf struct buf b = {0};

		tap_ok(!base64_decode(bad[i], strlen(bad[i]), &b) && b.len == 0,
			"bad base64 %zu is refused", i);
	}
}

static enum err_kind reply_kind(const char *line)
{
	auto_json json_t *value = NULL;
	struct err e = {0};

	if (qga_parse_reply(text_bytes(line), &value, &e) == 0)
		return ERR_NONE;
	printf("# %s\n", e.msg);
	return e.kind;
}

static void test_replies(void)
{
	char deep[5000];

	OK(reply_kind("{\"return\": {}}") == ERR_NONE);
	OK(reply_kind("{\"return\": 5}\r") == ERR_NONE);
	OK(reply_kind("{\"error\": {\"class\": \"GenericError\", \"desc\": \"no\\u001b\"}}") ==
		ERR_BACKEND);
	OK(reply_kind("{\"error\": {\"class\": \"CommandNotFound\", \"desc\": \"x\"}}") ==
		ERR_UNSUPPORTED);
	OK(reply_kind("{\"error\": {\"class\": \"GenericError\", \"desc\":"
		      " \"Command guest-exec has been disabled\"}}") == ERR_UNSUPPORTED);
	OK(reply_kind("{\"error\": {}}") == ERR_UNAVAILABLE);
	OK(reply_kind("{\"error\": 5}") == ERR_UNAVAILABLE);
	OK(reply_kind("{}") == ERR_UNAVAILABLE);
	OK(reply_kind("[]") == ERR_UNAVAILABLE);
	OK(reply_kind("") == ERR_UNAVAILABLE);
	OK(reply_kind("{\"return\": 1} x") == ERR_UNAVAILABLE);
	OK(reply_kind("{\"return\": \"\xff\"}") == ERR_UNAVAILABLE);
	memset(deep, '[', sizeof(deep));
	deep[sizeof(deep) - 1] = 0;
	OK(reply_kind(deep) == ERR_UNAVAILABLE);
	/* Brackets inside strings are not nesting. */
	OK(reply_kind("{\"return\": \"[[[[[[[[[[[[[[[[[[[[\\\"[[[[\"}") == ERR_NONE);
}

static size_t find_sync(const char *s, size_t *drop)
{
	*drop = 0;
	return qga_find_sync(text_bytes(s), 77, drop);
}

static void test_find_sync(void)
{
	size_t drop;
	char lots[1000];

	OK(find_sync("junk\xff{\"return\": 77}\nrest", &drop) == 4 + 1 + 14 + 1);
	OK(find_sync("{\"return\": 77}\n", &drop) == 0 && drop == 15);
	OK(find_sync("\xff{\"return\": 76}\n\xff{\"return\": 77}\n", &drop) == 32);
	OK(find_sync("junk\xff{\"return\": 7", &drop) == 0 && drop == 4);
	OK(find_sync("\xff\xff\xff", &drop) == 0 && drop <= 3);
	OK(find_sync("", &drop) == 0 && drop == 0);
	memset(lots, 'x', sizeof(lots));
	lots[0] = (char)0xff;
	lots[sizeof(lots) - 1] = 0;
	OK(find_sync(lots, &drop) == 0 && drop == sizeof(lots) - 1);
}

static int status(const char *text, size_t max, struct qga_exit *ret, struct err *e)
{
	auto_json json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);

	return qga_parse_status(value, max, ret, e);
}

static void test_status(void)
{
	auto_qga_exit struct qga_exit x = {0};
	struct err e = {0};

	OK(status("{\"exited\": false}", 10, &x, &e) == 0);
	OK(status("{\"exited\": true, \"exitcode\": 3, \"out-data\": \"Zm9v\","
		  " \"err-truncated\": true}",
		   10, &x, &e) == 1);
	OK(x.code == 3 && x.signal == 0 && x.out.len == 3 && x.err.len == 0 && x.err_cut);
	qga_exit_free(&x);
	OK(status("{\"exited\": true, \"signal\": 9}", 10, &x, &e) == 1 && x.code == 137);
	OK(status("{\"exited\": true, \"out-data\": \"Zm9vZm9v\"}", 3, &x, &e) == -1);
	OK(status("{\"exited\": true, \"out-data\": \"????\"}", 99, &x, &e) == -1);
	OK(status("{\"exited\": true, \"out-data\": 5}", 99, &x, &e) == -1);
	OK(status("{\"exited\": 1}", 99, &x, &e) == -1);
	OK(status("[]", 99, &x, &e) == -1 && e.kind == ERR_UNAVAILABLE);
	OK(status("{\"exited\": true, \"exitcode\": 99999999999999}", 9, &x, &e) == 1);
	OK(x.code == 255);
}

/* Conversations. */

static struct op op_in(double seconds)
{
	return op_for_cleanup(seconds);
}

struct side {
	struct peer peer;
	struct qga *q;
};

static int ping(struct qga *q, const struct op *op, struct err *e)
{
	auto_json json_t *value = NULL;

	return qga_call(q, op, &(struct qga_call){.command = "guest-ping"}, &value, e);
}

static void side_open(struct side *s, void (*script)(struct peer *))
{
	struct err e;

	if (qga_open(peer_start(&s->peer, script, NULL), &s->q, &e) < 0)
		abort();
}

static void side_close(struct side *s)
{
	qga_close(s->q);
	close(s->peer.ours);
	peer_join(&s->peer);
}

static void sync_after_garbage(struct peer *p)
{
	json_t *request;

	agent_say(p, "half an old answer\"}\n\xff{\"return\": 12345}\n{\"return\": {}}\n");
	if (!agent_get(p, &request))
		return;
	agent_say(p, "{\"return\": {\"exited\": false}}\n");
	agent_answer_sync(p, request);
	json_decref(request);
	if (agent_get(p, &request)) {
		agent_say(p, "{\"return\": {}}\n");
		json_decref(request);
	}
	peer_drain(p);
}

static void say_endlessly(struct peer *p)
{
	static char junk[65536];

	memset(junk, 'x', sizeof(junk));
	for (long sent = 0; sent < 100l * MIB; sent += (long)sizeof(junk))
		if (!peer_put(p, junk, sizeof(junk)))
			return;
	peer_drain(p);
}

static void answer_endlessly(struct peer *p, json_t *request, int number)
{
	(void)request;
	if (number == 0)
		say_endlessly(p);
}

static void endless_after_sync(struct peer *p)
{
	agent_serve(p, answer_endlessly);
}

static void test_sync(void)
{
	struct op op = op_in(30), brief = op_in(0.2);
	struct side s;
	struct err e = {0};

	side_open(&s, sync_after_garbage);
	OK(qga_sync(s.q, &op, &e) == 0);
	OK(ping(s.q, &op, &e) == 0);
	side_close(&s);

	side_open(&s, say_endlessly);
	OK(qga_sync(s.q, &op, &e) < 0 && e.kind == ERR_UNAVAILABLE);
	printf("# %s\n", e.msg);
	side_close(&s);

	side_open(&s, endless_after_sync);
	OK(ping(s.q, &op, &e) < 0 && e.kind == ERR_UNAVAILABLE);
	printf("# %s\n", e.msg);
	side_close(&s);

	side_open(&s, peer_drain);
	OK(qga_sync(s.q, &brief, &e) < 0 && e.kind == ERR_TIMEOUT);
	side_close(&s);
}

/* Answers the first sync, and nothing more. */
static void silent(struct peer *p)
{
	json_t *request;

	if (agent_get(p, &request)) {
		agent_answer_sync(p, request);
		json_decref(request);
	}
	peer_drain(p);
}

/* An agent whose QEMU is frozen. */
static void test_silence(void)
{
	static const char said[] = "the guest agent has said nothing for 0.3 seconds";
	struct op op = op_in(30), brief;
	struct side s;
	struct err e = {0};

	side_open(&s, silent);
	qga_set_patience(s.q, 0.3);
	OK(qga_sync(s.q, &op, &e) == 0);
	OK(ping(s.q, &op, &e) < 0 && e.kind == ERR_UNAVAILABLE);
	OK(strstr(e.msg, said));
	/* The next command begins with a sync, which gets no answer. */
	OK(ping(s.q, &op, &e) < 0 && e.kind == ERR_UNAVAILABLE && strstr(e.msg, said));
	/* A VM that stands still may be silent. */
	qga_stand_still(s.q, true);
	brief = op_in(1);
	OK(ping(s.q, &brief, &e) < 0 && e.kind == ERR_TIMEOUT);
	qga_stand_still(s.q, false);
	OK(ping(s.q, &op, &e) < 0 && e.kind == ERR_UNAVAILABLE);
	/* Who waits for a boot says how long. */
	brief = op_in(1);
	OK(qga_sync(s.q, &brief, &e) < 0 && e.kind == ERR_TIMEOUT);
	side_close(&s);

	side_open(&s, silent);
	qga_set_patience(s.q, 0.3);
	qga_stand_still(s.q, true);
	OK(qga_sync(s.q, &op, &e) == 0);
	brief = op_in(1);
	OK(ping(s.q, &brief, &e) < 0 && e.kind == ERR_TIMEOUT);
	side_close(&s);
}

/* The first answer comes only after the second sync. */
static void late(struct peer *p)
{
	json_t *request;

	if (agent_get(p, &request)) {
		agent_answer_sync(p, request);
		json_decref(request);
	}
	if (agent_get(p, &request)) /* the first command is not answered in time */
		json_decref(request);
	if (agent_get(p, &request)) { /* a new sync: only now */
		agent_say(p, "{\"return\": \"first\"}\n");
		agent_answer_sync(p, request);
		json_decref(request);
	}
	if (agent_get(p, &request)) {
		agent_say(p, "{\"return\": \"second\"}\n");
		json_decref(request);
	}
	peer_drain(p);
}

static void test_late(void)
{
	struct op op = op_in(30), brief;
	struct qga_call call = {.command = "guest-something"};
	auto_json json_t *value = NULL;
	struct side s;
	struct err e = {0};

	side_open(&s, late);
	OK(qga_sync(s.q, &op, &e) == 0);
	brief = op_in(0.2);
	OK(qga_call(s.q, &brief, &call, &value, &e) < 0 && e.kind == ERR_TIMEOUT && !value);
	OK(qga_call(s.q, &op, &call, &value, &e) == 0);
	STR_IS(json_string_value(value), "second");
	side_close(&s);
}

static void answer_badly(struct peer *p, json_t *request, int number)
{
	static const char *const answers[] = {
		"{\"error\": {\"class\": \"GenericError\", \"desc\": \"broken\"}}\n",
		"garbage\n",
		"{\"return\": {}}\n{\"return\": \"uninvited\"}\n",
		"{\"return\": {}}\n",
	};

	(void)request;
	if (number < (int)ARRAY_LEN(answers))
		agent_say(p, answers[number]);
	else
		shutdown(p->theirs, SHUT_RDWR);
}

static void badly(struct peer *p)
{
	agent_serve(p, answer_badly);
}

static void test_bad_answers(void)
{
	struct op op = op_in(30);
	struct side s;
	struct err e = {0};

	side_open(&s, badly);
	OK(ping(s.q, &op, &e) < 0 && e.kind == ERR_BACKEND);
	STR_IS(e.msg, "guest-ping: guest agent: broken");
	OK(ping(s.q, &op, &e) < 0 && e.kind == ERR_UNAVAILABLE);
	OK(ping(s.q, &op, &e) == 0);
	OK(ping(s.q, &op, &e) == 0);
	OK(ping(s.q, &op, &e) < 0 && e.kind == ERR_UNAVAILABLE);
	side_close(&s);
}

/* Checks guest-exec's arguments; says "running" twice. */
static void answer_exec(struct peer *p, json_t *request, int number)
{
	static const char want[] = "{\"path\":\"/bin/echo\",\"arg\":[\"a\",\"b c\"],"
				   "\"capture-output\":true,\"env\":[\"X=1\"],"
				   "\"input-data\":\"aW4=\"}";

	if (strcmp(agent_command(request), "guest-exec") == 0) {
		auto_free char *args =
			json_dumps(json_object_get(request, "arguments"), JSON_COMPACT);

		agent_say(p, strcmp(args, want) == 0 ? "{\"return\": {\"pid\": 42}}\n"
						     : "{\"return\": {}}\n");
	} else if (json_integer_value(agent_arg(request, "pid")) != 42) {
		agent_say(p, "{\"error\": {\"class\": \"GenericError\", \"desc\": \"pid\"}}\n");
	} else if (number < 3) {
		agent_say(p, "{\"return\": {\"exited\": false}}\n");
	} else {
		agent_say(p, "{\"return\": {\"exited\": true, \"exitcode\": 7,"
			     " \"out-data\": \"b3V0\", \"err-data\": \"ZXJy\"}}\n");
	}
}

static void execs(struct peer *p)
{
	agent_serve(p, answer_exec);
}

static void test_exec(void)
{
	const char *const argv[] = {"/bin/echo", "a", "b c", NULL}, *const env[] = {"X=1", NULL};
	const char *const latin[] = {"/bin/echo", "\xe9", NULL};
	struct qga_exec req = {
		.argv = argv, .env = env, .input = text_bytes("in"), .output_max = 99};
	auto_qga_exit struct qga_exit x = {0};
	struct op op = op_in(30);
	struct side s;
	struct err e = {0};

	side_open(&s, execs);
	OK(qga_exec(s.q, &op, &req, &x, &e) == 0);
	OK(x.code == 7 && x.out.len == 3 && memcmp(buf_data(&x.out), "out", 3) == 0);
	OK(x.err.len == 3 && memcmp(buf_data(&x.err), "err", 3) == 0);
	req.argv = latin;
	OK(qga_exec(s.q, &op, &req, &x, &e) < 0 && e.kind == ERR_UNSUPPORTED);
	side_close(&s);
}

/* A file store of one file. */
struct store {
	struct buf content;
	size_t at;
	int open;
};

static void answer_file(struct peer *p, json_t *request, int number)
{
	static struct store st;
	const char *command = agent_command(request);
	struct err e;

	(void)number;
	if (strcmp(command, "guest-file-open") == 0) {
		if (strcmp(json_string_value(agent_arg(request, "path")), "/none") == 0) {
			agent_say(p,
				"{\"error\": {\"class\": \"GenericError\", \"desc\": \"No such "
				"file or directory\"}}\n");
			return;
		}
		if (strcmp(json_string_value(agent_arg(request, "mode")), "w") == 0)
			buf_free(&st.content);
		st.at = 0;
		st.open++;
		agent_say(p, "{\"return\": 1000}\n");
	} else if (strcmp(command, "guest-file-write") == 0) {
		json_t *text = agent_arg(request, "buf-b64");
		auto_buf struct buf piece = {0};
		char reply[64];

		base64_decode(json_string_value(text), json_string_length(text), &piece);
		if (piece.len > 100000) /* a short write */
			piece.len = 100000;
		buf_add(&st.content, buf_data(&piece), piece.len, &e);
		snprintf(reply, sizeof(reply), "{\"return\": {\"count\": %zu, \"eof\": false}}\n",
			piece.len);
		agent_say(p, reply);
	} else if (strcmp(command, "guest-file-read") == 0) {
		size_t want = (size_t)json_integer_value(agent_arg(request, "count"));
		size_t left = st.content.len - st.at, n = want < left ? want : left;
		auto_free char *text = malloc(base64_len(n) + 1), *reply = NULL;

		base64_encode((struct bytes){buf_data(&st.content) + st.at, n}, text);
		st.at += n;
		if (str_printf(&reply, &e,
			    "{\"return\": {\"count\": %zu, \"buf-b64\": \"%s\", \"eof\": %s}}\n", n,
			    text, n == left ? "true" : "false") == 0)
			agent_say(p, reply);
	} else if (strcmp(command, "guest-file-seek") == 0) {
		bool is_set = strcmp(json_string_value(agent_arg(request, "whence")), "set") == 0;

		st.at = is_set ? (size_t)json_integer_value(agent_arg(request, "offset")) : 0;
		agent_say(p, "{\"return\": {\"position\": 0, \"eof\": false}}\n");
	} else {
		st.open--;
		agent_say(p, st.open == 0 ? "{\"return\": {}}\n" : "garbage\n");
	}
}

static void files(struct peer *p)
{
	agent_serve(p, answer_file);
}

static int collect(void *arg, struct bytes piece, struct err *e)
{
	return buf_add(arg, piece.p, piece.len, e);
}

static void test_files(void)
{
	static uint8_t content[MIB + 17];
	auto_buf struct buf back = {0};
	struct op op = op_in(60);
	struct side s;
	struct err e = {0};

	for (size_t i = 0; i < sizeof(content); i++)
		content[i] = (uint8_t)(i * 13 / 5);
	side_open(&s, files);
	OK(qga_file_write(s.q, &op, "/f", (struct bytes){content, sizeof(content)}, &e) == 0);
	OK(qga_file_read(s.q, &op, "/f", 0, 0, collect, &back, &e) == 0);
	OK(back.len == sizeof(content) && memcmp(buf_data(&back), content, back.len) == 0);
	buf_drop(&back, back.len);
	OK(qga_file_read(s.q, &op, "/f", MIB, 17, collect, &back, &e) == 0);
	OK(back.len == 17 && memcmp(buf_data(&back), content + MIB, 17) == 0);
	OK(qga_file_read(s.q, &op, "/f", 0, 1000, collect, &back, &e) < 0 && e.kind == ERR_LIMIT);
	OK(qga_file_read(s.q, &op, "/none", 0, 0, collect, &back, &e) < 0 && e.kind == ERR_BACKEND);
	OK(qga_file_write(s.q, &op, "/f", (struct bytes){0}, &e) == 0);
	side_close(&s);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	test_base64();
	test_replies();
	test_find_sync();
	test_status();
	test_sync();
	test_silence();
	test_late();
	test_bad_answers();
	test_exec();
	test_files();
	return tap_done();
}
