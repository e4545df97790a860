/* Installing the runner, and Windows guests, with a scripted agent. */
#include <signal.h>

#include "agent-peer.h"
#include "guestlink/agent/agent.h"
#include "wire/base64.h"
#include "guestlink/agent/install.h"
#include "wire/wire.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/str.h"

/* What the guest does: how the first script ends, and the one after the upload. */
struct guest_play {
	int find_code;
	const char *find_out, *find_err;
	int run_code;
	const char *run_err;
	/* seen */
	bool windows, unfinished;
	int execs, seeks;
	char file[100];
	struct buf content;
};

static void say_end(struct peer *p, int code, const char *out, const char *err)
{
	char out64[400], err64[400], text[1000];

	base64_encode((struct bytes){(const uint8_t *)out, strlen(out)}, out64);
	base64_encode((struct bytes){(const uint8_t *)err, strlen(err)}, err64);
	snprintf(text, sizeof(text),
		"{\"return\": {\"exited\": true, \"exitcode\": %d, \"out-data\": \"%s\", "
		"\"err-data\": \"%s\"}}\n",
		code, out64, err64);
	agent_say(p, text);
}

/* Prints it as our script for cmd does, whose id is in its name. */
static void say_windows_end(
	struct peer *p, const struct guest_play *play, int code, const char *out, const char *err)
{
	const char *id = play->file + strlen("C:\\Windows\\Temp\\moat-");
	char text[200];

	snprintf(text, sizeof(text), "%.16s size %zu\r\n%.16s size %zu\r\n%s", id, strlen(out), id,
		strlen(err), err);
	say_end(p, code, out, text);
}

static void play(struct peer *p, json_t *request, int number)
{
	struct guest_play *play = p->arg;
	const char *command = agent_command(request);
	json_t *text = agent_arg(request, "buf-b64");
	char reply[64];

	(void)number;
	play->seeks += strcmp(command, "guest-file-seek") == 0;
	if (strcmp(command, "guest-exec") == 0) {
		play->execs++;
		agent_say(p, "{\"return\": {\"pid\": 9}}\n");
	} else if (strcmp(command, "guest-exec-status") == 0 && play->unfinished) {
		say_end(p, play->find_code, play->find_out, "");
	} else if (strcmp(command, "guest-file-read") == 0) {
		agent_say(p,
			"{\"return\": {\"count\": 4, \"buf-b64\": \"bW9yZQ==\", \"eof\": true}}\n");
	} else if (strcmp(command, "guest-exec-status") == 0 && play->windows) {
		say_windows_end(p, play, play->find_code, play->find_out, play->find_err);
	} else if (strcmp(command, "guest-exec-status") == 0 && play->execs == 1) {
		say_end(p, play->find_code, play->find_out ? play->find_out : "",
			play->find_err ? play->find_err : "");
	} else if (strcmp(command, "guest-exec-status") == 0) {
		say_end(p, play->run_code, "", play->run_err ? play->run_err : "");
	} else if (strcmp(command, "guest-file-open") == 0) {
		snprintf(play->file, sizeof(play->file), "%s",
			json_string_value(agent_arg(request, "path")));
		agent_say(p, "{\"return\": 5}\n");
	} else if (strcmp(command, "guest-file-write") == 0) {
		size_t before = play->content.len;

		base64_decode(json_string_value(text), json_string_length(text), &play->content);
		snprintf(reply, sizeof(reply), "{\"return\": {\"count\": %zu}}\n",
			play->content.len - before);
		agent_say(p, reply);
	} else {
		agent_say(p, "{\"return\": {}}\n");
	}
}

static void serve_play(struct peer *p)
{
	agent_serve(p, play);
}

static int install(struct guest_play *guest, struct err *e)
{
	struct op op = op_for_cleanup(30);
	struct peer peer;
	struct qga *q;
	int rc;

	if (qga_open(peer_start(&peer, serve_play, guest), &q, e) < 0)
		abort();
	rc = runner_start(&op, q, "/proc/self/exe", e);
	qga_close(q);
	close(peer.ours);
	peer_join(&peer);
	return rc;
}

static void test_push(void)
{
	struct guest_play guest = {.find_code = 92, .find_out = "/tmp/moat-guest.12"};
	auto_free char *self = NULL;
	size_t size = 0;
	struct err e = {0};

	if (file_read("/proc/self/exe", 1 << 23, &self, &size, &e) < 0)
		abort();
	OK(install(&guest, &e) == 0);
	OK(guest.execs == 2);
	STR_IS(guest.file, "/tmp/moat-guest.12");
	OK(guest.content.len == size && memcmp(buf_data(&guest.content), self, size) == 0);
	buf_free(&guest.content);
}

static void test_outcomes(void)
{
	static const struct {
		const char *what;
		struct guest_play guest;
		int rc;
		enum err_kind kind;
		int execs;
	} cases[] = {
		{"is there already", {.find_code = 0}, 0, ERR_NONE, 1},
		{"serves already",
			{.find_code = 1,
				.find_err = "x: busy (is another moat-guest serving it?)\n"},
			0, ERR_NONE, 1},
		{"has no port", {.find_code = 1, .find_err = "moat-guest: no such port\n"}, -1,
			ERR_UNSUPPORTED, 1},
		{"may run nowhere", {.find_code = 91}, -1, ERR_UNSUPPORTED, 1},
		{"names no file", {.find_code = 92, .find_out = "x\n"}, -1, ERR_UNAVAILABLE, 1},
		{"is for another machine",
			{.find_code = 92,
				.find_out = "/tmp/m",
				.run_code = 93,
				.run_err = "a\n/tmp/m: Exec format error\n"},
			-1, ERR_UNSUPPORTED, 2},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct guest_play guest = cases[i].guest;
		struct err e = {0};
		int rc = install(&guest, &e);

		tap_ok(rc == cases[i].rc && e.kind == cases[i].kind &&
				guest.execs == cases[i].execs,
			"a runner that %s", cases[i].what);
		printf("# %s\n", e.msg);
		buf_free(&guest.content);
	}
}

static void no_shell(struct peer *p, json_t *request, int number)
{
	(void)request;
	(void)number;
	agent_say(p, "{\"error\": {\"class\": \"GenericError\", \"desc\": \"no /bin/sh\"}}\n");
}

static void serve_no_shell(struct peer *p)
{
	agent_serve(p, no_shell);
}

static void test_no_shell(void)
{
	struct op op = op_for_cleanup(30);
	struct peer peer;
	struct qga *q;
	struct err e = {0};

	if (qga_open(peer_start(&peer, serve_no_shell, NULL), &q, &e) < 0)
		abort();
	OK(runner_start(&op, q, "/proc/self/exe", &e) < 0 && e.kind == ERR_UNSUPPORTED);
	STR_IS(e.msg, "the runner: guest-exec: guest agent: no /bin/sh");
	qga_close(q);
	close(peer.ours);
	peer_join(&peer);
}

/* Windows. */

static int collect(void *arg, int stream, struct bytes data, struct err *e)
{
	(void)stream;
	return buf_add(arg, data.p, data.len, e);
}

static void test_windows(void)
{
	const char *const argv[] = {"ipconfig.exe", NULL}, *const env[] = {"A=b", NULL};
	struct guest_play guest = {
		.windows = true, .find_code = 5, .find_out = "out", .find_err = "err"};
	struct guest_exec req = {.argv = argv};
	struct guest_path at = {.path = "C:\\x"};
	auto_buf struct buf got = {0};
	struct guest_io io = {.output = collect, .arg = &got};
	struct op op = op_for_cleanup(30);
	struct guest_exit exit = {0};
	auto_inbox struct inbox *in = NULL;
	struct guest_stat st = {0};
	auto_free char *script = NULL, *second = NULL;
	struct peer peer;
	struct guest *g;
	struct qga *q;
	struct err e = {0};

	if (qga_open(peer_start(&peer, serve_play, &guest), &q, &e) < 0 ||
		agent_open(q, true, &g, &e) < 0 || inbox_new(4096, &in, &e) < 0)
		abort();
	OK(guest_exec(g, &op, &req, &io, &exit, &e) == 0 && exit.code == 5);
	OK(got.len == 6 && memcmp(buf_data(&got), "outerr", 6) == 0);
	script = buf_take_str(&guest.content);
	OK(strncmp(script, "@echo off\r\n>C:", 14) == 0 && strstr(script, ".err ipconfig.exe\r\n"));
	req.user = "root";
	OK(guest_exec(g, &op, &req, &io, &exit, &e) < 0 && e.kind == ERR_UNSUPPORTED);
	OK(guest_symlink(g, &op, &at, "x", &e) < 0 && e.kind == ERR_UNSUPPORTED);
	req.user = "SYSTEM";
	req.env = env;
	OK(guest_exec(g, &op, &req, &io, &exit, &e) == 0 && exit.code == 5);
	OK(strncmp(guest.file, "C:\\Windows\\Temp\\moat-", 21) == 0);
	second = buf_take_str(&guest.content);
	OK(strncmp(second, "@echo off\r\ndel /q C:", 20) == 0 && strstr(second, "\r\nset A=b\r\n"));
	/* A script that was replaced by another one: what was printed, and what the files hold. */
	guest.unfinished = true;
	buf_drop(&got, got.len);
	OK(guest_exec(g, &op, &req, &io, &exit, &e) == 0 && exit.stdout_bytes == 7);
	OK(got.len == 11 && memcmp(buf_data(&got), "outmoremore", 11) == 0);
	OK(guest.seeks == 0);
	buf_free(&guest.content);
	io.in = in;
	inbox_put(in, GUEST_INPUT_DATA, 0, 0, (struct bytes){(const uint8_t *)"abc", 3}, &e);
	inbox_put(in, GUEST_INPUT_EOF, 0, 0, (struct bytes){0}, &e);
	OK(guest_write(g, &op, &(struct guest_write){.at = at}, &io, &st, &e) == 0 && st.size == 3);
	STR_IS(guest.file, "C:\\x");
	OK(guest.content.len == 3 && memcmp(buf_data(&guest.content), "abc", 3) == 0);
	guest_free(g);
	qga_close(q);
	close(peer.ours);
	peer_join(&peer);
	buf_free(&guest.content);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	test_push();
	test_outcomes();
	test_no_shell();
	test_windows();
	return tap_done();
}
