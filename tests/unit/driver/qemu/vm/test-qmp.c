/* QEMU's monitor, played by a scripted peer. */
#include "driver/qemu/vm/qmp.h"

#include "tap.h"
#include "peer.h"
#include "scratch.h"
#include "util/json.h"
#include "util/str.h"

/* The code under test, with a thread that reads as a VM's monitor does. */
struct rig {
	struct peer peer;
	struct qmp *qmp;
	pthread_t feeder;
	char events[400];    /* read after that thread has ended */
	struct err feed_err; /* likewise: how its reading ended */
};

static void on_event(void *arg, const char *name, json_t *data)
{
	struct rig *r = arg;
	size_t n = strlen(r->events);
	auto_free char *text = data ? json_dumps(data, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

	snprintf(r->events + n, sizeof(r->events) - n, "%s%s ", name, text ? text : "");
}

static void *feed(void *arg)
{
	struct rig *r = arg;
	struct pollfd p = {.fd = r->peer.ours, .events = POLLIN};

	do {
		poll(&p, 1, -1);
	} while (qmp_readable(r->qmp, &r->feed_err) == 0);
	qmp_fail(r->qmp, &r->feed_err);
	return NULL;
}

static void rig_start(struct rig *r, void (*script)(struct peer *), void *arg)
{
	struct err e;

	*r = (struct rig){0};
	peer_start(&r->peer, script, arg);
	if (fd_set_nonblock(r->peer.ours, &e) < 0 ||
		qmp_new(r->peer.ours, on_event, r, &r->qmp, &e) < 0 ||
		pthread_create(&r->feeder, NULL, feed, r))
		abort();
}

static void rig_end(struct rig *r)
{
	shutdown(r->peer.ours, SHUT_RDWR);
	peer_join(&r->peer);
	pthread_join(r->feeder, NULL);
	qmp_free(r->qmp);
	close(r->peer.ours);
}

static int call(struct rig *r, const char *command, json_t *args, json_t **ret, struct err *e)
{
	struct op op = op_for_cleanup(30);

	return qmp_call(r->qmp, &op, command, args, -1, ret, e);
}

static void say(struct peer *p, const char *text)
{
	peer_put(p, text, strlen(text));
}

/* The next command: its name, and its id as text. */
static bool hear(struct peer *p, char name[64], char id[32])
{
	char line[4096];
	auto_json json_t *msg = NULL;
	size_t n = 0;
	struct err e;

	while (n < sizeof(line) && peer_get(p, line + n, 1) && line[n] != '\n')
		n++;
	if (n == sizeof(line) ||
		json_parse_object((struct bytes){(uint8_t *)line, n}, &msg, &e) < 0)
		return false;
	snprintf(name, 64, "%s", json_string_value(json_object_get(msg, "execute")));
	snprintf(id, 32, "%lld", (long long)json_integer_value(json_object_get(msg, "id")));
	return true;
}

static void answer(struct peer *p, const char *id, const char *rest)
{
	char line[600];

	snprintf(line, sizeof(line), "{\"id\": %s, %s}\r\n", id, rest);
	say(p, line);
}

static void script_plain(struct peer *p)
{
	char name[64], id[32];

	say(p, "{\"QMP\": {\"version\": {}}}\r\n");
	while (hear(p, name, id)) {
		say(p, "{\"event\": \"TICK\", \"data\": {\"n\": 1}}\r\n\r\n{\"event\": "
		       "\"BARE\"}\n");
		answer(p, "777", "\"return\": {\"to\": \"nobody\"}");
		if (strcmp(name, "refuse") == 0)
			answer(p, id,
				"\"error\": {\"class\": \"GenericError\", \"desc\": "
				"\"no\\u001b[2J\"}");
		else if (strcmp(name, "odd") == 0)
			answer(p, id, "\"error\": 5");
		else
			answer(p, id, "\"return\": {\"name\": \"value\"}");
	}
}

static void test_calls(void)
{
	auto_json json_t *result = NULL;
	struct rig r;
	struct err e;

	rig_start(&r, script_plain, NULL);
	OK(call(&r, "qmp_capabilities", NULL, NULL, &e) == 0);
	OK(call(&r, "query", json_pack("{s:i}", "n", 1), &result, &e) == 0);
	STR_IS(json_string_value(json_object_get(result, "name")), "value");
	OK(call(&r, "refuse", NULL, NULL, &e) < 0 && e.kind == ERR_BACKEND);
	STR_IS(e.msg, "QEMU: refuse: no\\x1b[2J");
	OK(call(&r, "odd", NULL, NULL, &e) < 0 && e.kind == ERR_BACKEND);
	rig_end(&r);
	STR_IS(r.events,
		"TICK{\"n\":1} BARE TICK{\"n\":1} BARE TICK{\"n\":1} BARE TICK{\"n\":1} BARE ");
}

/* Collects all the calls, then answers the last one first. */
enum { CALLERS = 5 };

static void script_reverse(struct peer *p)
{
	char names[CALLERS][64], ids[CALLERS][32], rest[100];

	for (int i = 0; i < CALLERS; i++)
		if (!hear(p, names[i], ids[i]))
			return;
	for (int i = CALLERS - 1; i >= 0; i--) {
		snprintf(rest, sizeof(rest), "\"return\": \"%s\"", names[i]);
		answer(p, ids[i], rest);
		answer(p, ids[i], "\"return\": \"said twice\"");
	}
	peer_drain(p);
}

struct caller {
	struct rig *rig;
	pthread_t thread;
	char name[32], got[64];
};

static void *call_by_name(void *arg)
{
	struct caller *c = arg;
	auto_json json_t *result = NULL;
	struct err e;

	if (call(c->rig, c->name, NULL, &result, &e) == 0)
		snprintf(c->got, sizeof(c->got), "%s", json_string_value(result));
	return NULL;
}

static void test_out_of_order(void)
{
	struct caller callers[CALLERS];
	struct rig r;

	rig_start(&r, script_reverse, NULL);
	for (int i = 0; i < CALLERS; i++) {
		callers[i] = (struct caller){.rig = &r};
		snprintf(callers[i].name, sizeof(callers[i].name), "command-%d", i);
		pthread_create(&callers[i].thread, NULL, call_by_name, &callers[i]);
	}
	for (int i = 0; i < CALLERS; i++) {
		pthread_join(callers[i].thread, NULL);
		STR_IS(callers[i].got, callers[i].name);
	}
	rig_end(&r);
}

static void script_reply_with(struct peer *p)
{
	char name[64], id[32];

	if (hear(p, name, id)) {
		say(p, p->arg);
		shutdown(p->theirs, SHUT_WR);
		peer_drain(p);
	}
}

/* Calls that wait fail, and so do those that come later. */
static void test_nonsense(const char *reply, enum err_kind kind, const char *words)
{
	struct rig r;
	struct err e;

	rig_start(&r, script_reply_with, (void *)reply);
	tap_ok(call(&r, "query", NULL, NULL, &e) < 0 && e.kind == kind && strstr(e.msg, words),
		"the caller hears: %s", words);
	OK(call(&r, "later", NULL, NULL, &e) < 0 && e.kind == kind && strstr(e.msg, words));
	rig_end(&r);
}

static void script_endless_line(struct peer *p)
{
	char name[64], id[32], piece[65536];

	memset(piece, ' ', sizeof(piece));
	if (hear(p, name, id))
		while (peer_put(p, piece, sizeof(piece)))
			;
}

static void test_endless_line(void)
{
	struct rig r;
	struct err e;

	rig_start(&r, script_endless_line, NULL);
	OK(call(&r, "query", NULL, NULL, &e) < 0 && e.kind == ERR_BACKEND);
	OK(strstr(e.msg, "without end"));
	rig_end(&r);
}

/* The longest line that is not refused must also reach its caller. */
static void script_long_answer(struct peer *p)
{
	enum { LONG = 4 * 1024 * 1024 + 8000 };
	auto_free char *text = malloc(LONG + 1);
	char name[64], id[32], head[64];

	if (!text || !hear(p, name, id))
		return;
	snprintf(head, sizeof(head), "{\"id\": %s, \"return\": \"", id);
	memset(text, 'x', LONG);
	text[LONG] = 0;
	say(p, head);
	say(p, text);
	say(p, "\"}\r\n");
	peer_drain(p);
}

static void test_long_answer(void)
{
	struct op op = op_for_cleanup(20);
	struct rig r;
	struct err e;
	int rc;

	rig_start(&r, script_long_answer, NULL);
	rc = qmp_call(r.qmp, &op, "query", NULL, -1, NULL, &e);
	OK(rc == 0 || e.kind == ERR_BACKEND); /* taken or refused; but the call ends */
	rig_end(&r);
}

static void script_silent(struct peer *p)
{
	peer_drain(p);
}

static void test_deadline_and_cancel(void)
{
	struct op brief = op_for_cleanup(0.05), cancelled;
	struct rig r;
	struct err e;

	rig_start(&r, script_silent, NULL);
	OK(qmp_call(r.qmp, &brief, "query", NULL, -1, NULL, &e) < 0 && e.kind == ERR_TIMEOUT);
	STR_IS(e.msg, "QEMU: query: timed out");
	OK(op_init(&cancelled, "t", 30, &e) == 0);
	op_cancel(&cancelled);
	OK(qmp_call(r.qmp, &cancelled, "query", NULL, -1, NULL, &e) < 0 && e.kind == ERR_CANCELLED);
	op_done(&cancelled);
	rig_end(&r);
}

/* An answer that comes after its call has ended is dropped. */
static void script_late(struct peer *p)
{
	char name[64], first[32], second[32];

	if (!hear(p, name, first) || !hear(p, name, second))
		return;
	answer(p, first, "\"return\": \"late\"");
	answer(p, second, "\"return\": \"in time\"");
	peer_drain(p);
}

static void test_late_answer(void)
{
	struct op brief = op_for_cleanup(0.05);
	auto_json json_t *result = NULL;
	struct rig r;
	struct err e;

	rig_start(&r, script_late, NULL);
	OK(qmp_call(r.qmp, &brief, "one", NULL, -1, NULL, &e) < 0 && e.kind == ERR_TIMEOUT);
	OK(call(&r, "two", NULL, &result, &e) == 0);
	STR_IS(json_string_value(result), "in time");
	rig_end(&r);
}

/* Takes the fd that comes with the command and writes into it. */
static void script_take_fd(struct peer *p)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	char line[1000];
	struct iovec iov = {line, sizeof(line)};
	struct msghdr msg = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buf,
		.msg_controllen = sizeof(control.buf)};
	struct cmsghdr *c;
	int fd = -1;

	if (recvmsg(p->theirs, &msg, 0) <= 0 || !(c = CMSG_FIRSTHDR(&msg)))
		return;
	memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	if (write(fd, "from QEMU", 9) == 9)
		answer(p, "1", "\"return\": {}");
	close(fd);
	peer_drain(p);
}

static void test_pass_fd(void)
{
	struct op op = op_for_cleanup(30);
	char got[32] = "";
	int fds[2];
	struct rig r;
	struct err e;

	OK(pipe(fds) == 0);
	rig_start(&r, script_take_fd, NULL);
	OK(qmp_call(r.qmp, &op, "getfd", json_pack("{s:s}", "fdname", "x"), fds[1], NULL, &e) == 0);
	OK(read(fds[0], got, sizeof(got)) == 9);
	STR_IS(got, "from QEMU");
	OK(fcntl(fds[1], F_GETFD) >= 0); /* our own fd stays open */
	rig_end(&r);
	close(fds[0]);
	close(fds[1]);
}

static void test_next_line(void)
{
	struct bytes in = {(const uint8_t *)"one\r\n\ntwo", 9}, line;

	OK(qmp_next_line(in, &line) == 5 && line.len == 3 && memcmp(line.p, "one", 3) == 0);
	in = (struct bytes){in.p + 5, in.len - 5};
	OK(qmp_next_line(in, &line) == 1 && line.len == 0);
	in = (struct bytes){in.p + 1, in.len - 1};
	OK(qmp_next_line(in, &line) == 0);
	OK(qmp_next_line((struct bytes){0}, &line) == 0);
	in = (struct bytes){(const uint8_t *)"\r\n", 2};
	OK(qmp_next_line(in, &line) == 2 && line.len == 0);
}

int main(void)
{
	test_next_line();
	test_calls();
	test_out_of_order();
	test_nonsense("garbage\n", ERR_INVALID, "QEMU's monitor: not valid JSON");
	test_nonsense("[1, 2]\n", ERR_INVALID, "not a JSON object");
	test_nonsense("{\"no\": \"newline\"}", ERR_UNAVAILABLE, "QEMU closed its monitor");
	test_nonsense("", ERR_UNAVAILABLE, "QEMU closed its monitor");
	test_nonsense("{\"id\": \"1\", \"return\": 1}\n", ERR_UNAVAILABLE, "closed its monitor");
	test_endless_line();
	test_long_answer();
	test_deadline_and_cancel();
	test_late_answer();
	test_pass_fd();
	return tap_done();
}
