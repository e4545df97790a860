/* The line against the real runner, which runs real commands on this host. */
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include "guestlink/line/line.h"
#include "wire/wire.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "tap.h"
#include "peer.h"

enum { MIB = 1024 * 1024 };

extern char **environ;

static struct guest *g;
static pid_t runner;
static int runner_fd;
static struct err e;

struct collected {
	struct buf data[WIRE_BODY + 1];
	size_t consumed;
};

static int collect(void *arg, int stream, struct bytes data, struct err *err)
{
	struct collected *c = arg;

	return buf_add(&c->data[stream], data.p, data.len, err);
}

static void count_consumed(void *arg, size_t n)
{
	((struct collected *)arg)->consumed += n;
}

static void collected_free(struct collected *c)
{
	for (size_t i = 0; i < ARRAY_LEN(c->data); i++)
		buf_free(&c->data[i]);
}

static void runner_start(void)
{
	const char *path = getenv("MOAT_GUEST") ? getenv("MOAT_GUEST") : MOAT_GUEST_TEST;
	char *const argv[] = {(char *)path, (char *)"serve", (char *)"-", NULL};
	posix_spawn_file_actions_t fa;
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		abort();
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_adddup2(&fa, fds[1], 0);
	posix_spawn_file_actions_adddup2(&fa, fds[1], 1);
	if (posix_spawn(&runner, path, &fa, NULL, argv, environ)) {
		printf("Bail out! cannot start %s\n", path);
		exit(1);
	}
	posix_spawn_file_actions_destroy(&fa);
	close(fds[1]);
	runner_fd = fds[0];
}

static void open_line(void)
{
	struct op op = op_for_cleanup(30);

	if (line_open(&op, dup(runner_fd), 0, &g, &e) < 0) {
		printf("Bail out! %s\n", e.msg);
		exit(1);
	}
}

static int run(struct guest_exec req, double limit, struct collected *c, struct guest_exit *ret)
{
	struct op op = op_for_cleanup(limit);
	struct guest_io io = {.output = collect, .arg = c};

	return guest_exec(g, &op, &req, &io, ret, &e);
}

static bool is_text(const struct buf *b, const char *want)
{
	return b->len == strlen(want) && memcmp(buf_data(b), want, b->len) == 0;
}

#define ARGV(...) ((const char *const[]){__VA_ARGS__, NULL})
#define SH(text)  ARGV("/bin/sh", "-c", text)

static void test_exec(void)
{
	struct collected c = {0};
	struct guest_exit x;

	OK(run((struct guest_exec){.argv = SH("echo out; echo err >&2; exit 3")}, 30, &c, &x) == 0);
	OK(x.code == 3 && x.stage == GUEST_RAN && x.stdout_bytes == 4 && x.stderr_bytes == 4);
	OK(is_text(&c.data[WIRE_STDOUT], "out\n") && is_text(&c.data[WIRE_STDERR], "err\n"));
	collected_free(&c);
	OK(run((struct guest_exec){.argv = SH("kill -11 $$")}, 30, &c, &x) == 0);
	OK(x.signal == 11 && x.code == 139);
	OK(run((struct guest_exec){.argv = ARGV("no-such-command")}, 30, &c, &x) == 0);
	OK(x.stage == GUEST_NO_EXEC && x.code == 127);
	OK(run((struct guest_exec){.argv = SH("head -c 20000000 /dev/zero")}, 60, &c, &x) == 0);
	OK(c.data[WIRE_STDOUT].len == 20000000 && x.stdout_bytes == 20000000);
	collected_free(&c);
	OK(run((struct guest_exec){.argv = SH("head -c 20000000 /dev/zero; echo end"),
		       .capture_max = MIB},
		   60, &c, &x) == 0);
	OK(c.data[WIRE_STDOUT].len == MIB && x.stdout_bytes == 20000004);
	collected_free(&c);
}

static void test_input(void)
{
	enum { SIZE = 8 * MIB + 3 };
	static uint8_t content[SIZE];
	struct collected c = {0};
	struct guest_exec req = {.argv = ARGV("cat"), .input = true};
	auto_inbox struct inbox *in = NULL;
	struct op op = op_for_cleanup(60);
	struct guest_exit x;

	for (size_t i = 0; i < SIZE; i++)
		content[i] = (uint8_t)(i * 7 / 3);
	if (inbox_new(16 * MIB, &in, &e) < 0)
		abort();
	for (size_t at = 0; at < SIZE; at += MIB)
		inbox_put(in, GUEST_INPUT_DATA, 0, 0,
			(struct bytes){content + at, SIZE - at < MIB ? SIZE - at : MIB}, &e);
	inbox_put(in, GUEST_INPUT_EOF, 0, 0, (struct bytes){0}, &e);
	struct guest_io io = {.in = in, .output = collect, .consumed = count_consumed, .arg = &c};
	OK(guest_exec(g, &op, &req, &io, &x, &e) == 0 && x.code == 0);
	OK(c.consumed == SIZE && c.data[WIRE_STDOUT].len == SIZE &&
		memcmp(buf_data(&c.data[WIRE_STDOUT]), content, SIZE) == 0);
	collected_free(&c);
}

/*
 * A script in which %d stands for a number that no other run of this test uses, so that
 * `sleep %d1` is ours alone.
 */
static const char *script(const char *format)
{
	static char text[200];
	size_t n = 0;

	for (const char *p = format; *p; p++)
		if (p[0] == '%' && p[1] == 'd') {
			n += (size_t)sprintf(text + n, "%d", 1000000 + getpid());
			p++;
		} else {
			text[n++] = *p;
		}
	text[n] = 0;
	return text;
}

static bool sleeps(const char *which)
{
	char command[100];

	snprintf(command, sizeof(command), "pgrep -f '^sleep %d%s$' >/dev/null", 1000000 + getpid(),
		which);
	return system(command) == 0;
}

static void test_giving_up(void)
{
	struct collected c = {0};
	struct guest_exit x;

	OK(run((struct guest_exec){.argv = SH(script("(setsid sleep %d1 &); sleep %d2")),
		       .timeout = 0.3},
		   30, &c, &x) == 0);
	OK(x.timed_out && x.code == 124 && !sleeps("1") && !sleeps("2"));
	OK(run((struct guest_exec){.argv = SH(script("(setsid sleep %d3 &); sleep %d4"))}, 0.5, &c,
		   &x) < 0);
	OK(e.kind == ERR_TIMEOUT && !sleeps("3") && !sleeps("4"));
	/* A command that writes faster than anybody reads is stopped as well. */
	OK(run((struct guest_exec){.argv = ARGV("yes")}, 0.5, &c, &x) < 0 && e.kind == ERR_TIMEOUT);
	OK(!line_failed(g));
	collected_free(&c);
}

static int add_name(void *arg, const struct guest_entry *entry, struct err *err)
{
	return buf_printf(arg, err, "%s>%s;", entry->name, entry->target);
}

static void test_files(void)
{
	char dir[] = "/tmp/moat-test-line-XXXXXX", path[100];
	struct collected c = {0};
	struct guest_io io = {.output = collect, .arg = &c};
	auto_inbox struct inbox *in = NULL;
	auto_buf struct buf names = {0};
	struct op op = op_for_cleanup(60);
	struct guest_stat st;

	if (!mkdtemp(dir) || inbox_new(MIB, &in, &e) < 0)
		abort();
	snprintf(path, sizeof(path), "%s/sub/file", dir);
	inbox_put(in, GUEST_INPUT_DATA, 0, 0, (struct bytes){(const uint8_t *)"a\0b", 3}, &e);
	inbox_put(in, GUEST_INPUT_EOF, 0, 0, (struct bytes){0}, &e);
	OK(guest_write(g, &op,
		   &(struct guest_write){.at = {.path = path}, .parents = true, .mode = 0600},
		   &(struct guest_io){.in = in}, &st, &e) == 0);
	OK(st.size == 3);
	OK(guest_read(g, &op, &(struct guest_path){.path = path}, 3, &io, &st, &e) == 0);
	OK(c.data[WIRE_BODY].len == 3 && st.size == 3 && (st.mode & 07777) == 0600);
	OK(guest_read(g, &op, &(struct guest_path){.path = path}, 2, &io, &st, &e) < 0 &&
		e.kind == ERR_LIMIT);
	OK(guest_read(g, &op, &(struct guest_path){.path = dir}, 0, &io, &st, &e) < 0 &&
		e.kind == ERR_IS_DIR);
	snprintf(path, sizeof(path), "%s/link", dir);
	OK(guest_symlink(g, &op, &(struct guest_path){.path = path}, "sub/file", &e) == 0);
	OK(guest_list(g, &op, &(struct guest_path){.path = dir}, add_name, &names, &e) == 0);
	OK(is_text(&names, "link>sub/file;sub>;") || is_text(&names, "sub>;link>sub/file;"));
	collected_free(&c);
	OK(dir_remove(dir, &e) == 0);
}

static void *run_some(void *arg)
{
	intptr_t bad = 0;
	char text[32];

	snprintf(text, sizeof(text), "%p", arg);
	for (int i = 0; i < 2; i++) {
		struct collected c = {0};
		struct guest_exit x = {0};
		struct guest_exec req = {
			.argv = ARGV("/bin/sh", "-c", "printf %s \"$1\"", "sh", text)};
		struct guest_io io = {.output = collect, .arg = &c};
		struct op op = op_for_cleanup(120);
		struct err err;

		bad += guest_exec(g, &op, &req, &io, &x, &err) < 0 || x.code ||
		       !is_text(&c.data[WIRE_STDOUT], text);
		collected_free(&c);
	}
	return (void *)bad;
}

static void test_many(void)
{
	enum { THREADS = 200 };
	static pthread_t threads[THREADS];
	intptr_t bad = 0;

	for (intptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, run_some, (void *)(i + 1)))
			abort();
	for (int i = 0; i < THREADS; i++) {
		void *result;

		pthread_join(threads[i], &result);
		bad += (intptr_t)result;
	}
	tap_ok(bad == 0, "%d commands at once, twice", THREADS);
}

/* A new line on the same connection: the old one's commands are gone. */
static void *run_long(void *arg)
{
	struct collected c = {0};
	struct guest_exit x;
	struct guest_exec req = {.argv = SH(script("sleep %d5"))};
	struct guest_io io = {.output = collect, .arg = &c};
	struct op op = op_for_cleanup(60);
	struct err *err = arg;

	return (void *)(intptr_t)guest_exec(g, &op, &req, &io, &x, err);
}

static void test_reopen(void)
{
	struct op op = op_for_cleanup(30);
	struct collected c = {0};
	struct guest_exit x;
	struct err err = {0};
	pthread_t thread;

	pthread_create(&thread, NULL, run_long, &err);
	while (!sleeps("5") && op_pause(&op, 0.05, &e) == 0)
		;
	line_fail(g, "port closed");
	pthread_join(thread, NULL);
	OK(err.kind == ERR_UNAVAILABLE);
	guest_free(g);
	open_line();
	OK(run((struct guest_exec){.argv = SH("exit 4")}, 30, &c, &x) == 0 && x.code == 4);
	while (sleeps("5") && op_pause(&op, 0.05, &e) == 0) /* they die while we go on */
		;
	OK(!sleeps("5"));
}

static void test_runner_killed(void)
{
	struct collected c = {0};
	struct guest_exit x;
	struct err err = {0};
	pthread_t thread;
	struct op op = op_for_cleanup(30);

	pthread_create(&thread, NULL, run_long, &err);
	while (!sleeps("5") && op_pause(&op, 0.05, &e) == 0)
		;
	kill(runner, SIGKILL);
	pthread_join(thread, NULL);
	OK(err.kind == ERR_UNAVAILABLE);
	OK(run((struct guest_exec){.argv = SH("exit 4")}, 30, &c, &x) < 0 &&
		e.kind == ERR_UNAVAILABLE);
	waitpid(runner, NULL, 0);
	if (system(script("pkill -f '^sleep %d5$'")))
		printf("# already gone\n");
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	runner_start();
	open_line();
	test_exec();
	test_input();
	test_giving_up();
	test_files();
	test_many();
	test_reopen();
	test_runner_killed();
	guest_free(g);
	close(runner_fd);
	return tap_done();
}
