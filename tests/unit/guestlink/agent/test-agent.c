/* Links through the plain agent, with an agent of ours that really runs the commands on this host:
 * so a real shell tries the scripts. */
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "agent-peer.h"
#include "guestlink/agent/agent.h"
#include "guestlink/agent/script-output.h"
#include "wire/base64.h"
#include "wire/wire.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/str.h"

/* The agent. These tests need no more than one child at a time, and another that kills it. */

struct child {
	pid_t pid;
	int in, out, err;
	int status;
	bool ended;
};
static struct child children[256];
static size_t n_children;

static int memory_file(void)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	if (fd < 0)
		abort();
	return fd;
}

static char **string_list(json_t *array, const char *first)
{
	char **list = calloc(json_array_size(array) + 2, sizeof(*list));
	size_t n = 0;

	if (first)
		list[n++] = (char *)first;
	for (size_t i = 0; i < json_array_size(array); i++)
		list[n++] = (char *)json_string_value(json_array_get(array, i));
	return list;
}

static void start_child(struct peer *p, json_t *request)
{
	struct child *c = &children[n_children++ % ARRAY_LEN(children)];
	const char *path = json_string_value(agent_arg(request, "path"));
	json_t *input = agent_arg(request, "input-data");
	auto_free char **argv = string_list(agent_arg(request, "arg"), path);
	auto_free char **env = string_list(agent_arg(request, "env"), NULL);
	auto_buf struct buf bytes = {0};
	posix_spawn_file_actions_t fa;
	char reply[64];

	*c = (struct child){.in = memory_file(), .out = memory_file(), .err = memory_file()};
	if (input && (!base64_decode(json_string_value(input), json_string_length(input), &bytes) ||
			     pwrite(c->in, buf_data(&bytes), bytes.len, 0) < 0))
		abort();
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_adddup2(&fa, c->in, 0);
	posix_spawn_file_actions_adddup2(&fa, c->out, 1);
	posix_spawn_file_actions_adddup2(&fa, c->err, 2);
	if (posix_spawnp(&c->pid, path, &fa, NULL, argv, env)) {
		agent_say(p, "{\"error\": {\"class\": \"GenericError\", \"desc\": \"spawn\"}}\n");
	} else {
		snprintf(reply, sizeof(reply), "{\"return\": {\"pid\": %d}}\n", c->pid);
		agent_say(p, reply);
	}
	posix_spawn_file_actions_destroy(&fa);
}

static char *text_of(int fd)
{
	off_t n = lseek(fd, 0, SEEK_END);
	auto_free uint8_t *bytes = malloc((size_t)n + 1);
	char *text = malloc(base64_len((size_t)n) + 1);

	if (pread(fd, bytes, (size_t)n, 0) != n)
		abort();
	base64_encode((struct bytes){bytes, (size_t)n}, text);
	return text;
}

static void say_status(struct peer *p, json_t *request)
{
	pid_t pid = (pid_t)json_integer_value(agent_arg(request, "pid"));
	struct child *c = children;
	auto_free char *out = NULL, *err = NULL, *reply = NULL;
	struct err e;

	while (c->pid != pid)
		c++;
	c->ended = c->ended || waitpid(pid, &c->status, WNOHANG) == pid;
	if (!c->ended) {
		agent_say(p, "{\"return\": {\"exited\": false}}\n");
		return;
	}
	out = text_of(c->out);
	err = text_of(c->err);
	if (str_printf(&reply, &e,
		    "{\"return\": {\"exited\": true, \"exitcode\": %d, \"out-data\": \"%s\", "
		    "\"err-data\": \"%s\"}}\n",
		    WEXITSTATUS(c->status), out, err) < 0)
		abort();
	agent_say(p, reply);
	close(c->in);
	close(c->out);
	close(c->err);
}

static void answer(struct peer *p, json_t *request, int number)
{
	(void)number;
	if (strcmp(agent_command(request), "guest-exec") == 0)
		start_child(p, request);
	else
		say_status(p, request);
}

static void really(struct peer *p)
{
	agent_serve(p, answer);
}

/* The host's side. */

static struct guest *g;
static char dir[] = "/tmp/moat-test-agent-XXXXXX";
static struct buf got[WIRE_BODY + 1];
static struct guest_exit end;
static struct err e;

static int collect(void *arg, int stream, struct bytes data, struct err *err)
{
	(void)arg;
	return buf_add(&got[stream], data.p, data.len, err);
}

static int run(struct guest_exec req, double limit)
{
	struct op op = op_for_cleanup(limit);
	struct guest_io io = {.output = collect};

	for (size_t i = 0; i < ARRAY_LEN(got); i++)
		buf_free(&got[i]);
	end = (struct guest_exit){0};
	return guest_exec(g, &op, &req, &io, &end, &e);
}

static bool got_text(int stream, const char *want)
{
	bool same = got[stream].len == strlen(want) &&
		    (!*want || memcmp(buf_data(&got[stream]), want, strlen(want)) == 0);

	if (!same)
		printf("# stream %d: %.*s\n", stream, (int)got[stream].len,
			got[stream].len ? (const char *)buf_data(&got[stream]) : "");
	return same;
}

#define ARGV(...) ((const char *const[]){__VA_ARGS__, NULL})
#define SH(text)  ARGV("/bin/sh", "-c", text)

static void test_exec(void)
{
	OK(run((struct guest_exec){.argv = SH("echo out; printf err >&2; exit 3")}, 30) == 0);
	OK(end.code == 3 && end.stage == GUEST_RAN && !end.timed_out);
	OK(got_text(WIRE_STDOUT, "out\n") && got_text(WIRE_STDERR, "err"));
	OK(end.stdout_bytes == 4 && end.stderr_bytes == 3);

	OK(run((struct guest_exec){.argv = ARGV("printf", "[%s]", "a b", "", "$(id)", "'\"\n\\")},
		   30) == 0);
	OK(got_text(WIRE_STDOUT, "[a b][][$(id)]['\"\n\\]"));

	OK(run((struct guest_exec){.argv = SH("printf '%s|' \"$X\" \"$Y\" \"$PATH\""),
		       .env = ARGV("X=a  b", "Y=$(id)", "PATH=/bin:/nowhere")},
		   30) == 0);
	OK(got_text(WIRE_STDOUT, "a  b|$(id)|/bin:/nowhere|"));

	OK(run((struct guest_exec){.argv = ARGV("pwd"), .cwd = dir}, 30) == 0);
	OK(got[WIRE_STDOUT].len == strlen(dir) + 1);

	OK(run((struct guest_exec){.argv = SH("yes | head -c 5000"), .capture_max = 4}, 30) == 0);
	OK(got_text(WIRE_STDOUT, "y\ny\n") && end.stdout_bytes == 5000);

	OK(run((struct guest_exec){.argv = SH("kill -9 $$")}, 30) == 0 && end.code == 137);
	OK(got_text(WIRE_STDERR, ""));
}

static void test_not_run(void)
{
	OK(run((struct guest_exec){.argv = ARGV("no-such-command")}, 30) == 0);
	OK(end.stage == GUEST_NO_EXEC && end.code == 127 && end.sys == ENOENT);
	STR_IS(end.message, "no-such-command: No such file or directory");
	OK(got_text(WIRE_STDERR, ""));
	OK(run((struct guest_exec){.argv = ARGV("/etc/passwd")}, 30) == 0);
	OK(end.stage == GUEST_NO_EXEC && end.code == 126 && end.sys == EACCES);
	OK(run((struct guest_exec){.argv = ARGV("id"), .cwd = "/no/such"}, 30) == 0);
	OK(end.stage == GUEST_NO_CWD && end.code == 126 && end.sys == ENOENT);
	STR_IS(end.message, "/no/such: No such file or directory");
	OK(run((struct guest_exec){.argv = ARGV("id"), .user = "no-such-user"}, 30) == 0);
	OK(end.stage == GUEST_NO_USER && end.code == 126);
	STR_IS(end.message, "no such user: no-such-user");
	OK(run((struct guest_exec){.argv = ARGV("id"), .tty = true}, 30) < 0 &&
		e.kind == ERR_UNSUPPORTED);
}

static void test_user(void)
{
	OK(run((struct guest_exec){.argv = SH("id -un; id -Gn"), .user = "nobody"}, 30) == 0);
	OK(got_text(WIRE_STDOUT, "nobody\nnogroup\n"));
	OK(run((struct guest_exec){.argv = ARGV("id", "-u"), .user = "65534"}, 30) == 0);
	OK(got_text(WIRE_STDOUT, "65534\n"));
}

/* A number that no other run of this test has. */
static const char *own(char digit)
{
	static char text[4][24];
	static unsigned turn;
	char *number = text[turn++ % ARRAY_LEN(text)];

	snprintf(number, sizeof(text[0]), "%d%c", 1000000 + getpid(), digit);
	return number;
}

static bool is_running(char digit)
{
	char command[100];

	snprintf(command, sizeof(command), "pgrep -f '^sleep %s$' >/dev/null", own(digit));
	return system(command) == 0;
}

#define SH_WITH(text, ...) ARGV("/bin/sh", "-c", text, "sh", __VA_ARGS__)

static void test_giving_up(void)
{
	struct op op = op_for_cleanup(60);

	OK(run((struct guest_exec){.argv = SH_WITH("echo before; (setsid sleep $1 &); sleep $2",
					   own('1'), own('2')),
		       .timeout = 3},
		   60) == 0);
	OK(end.timed_out && end.code == 124 && got_text(WIRE_STDOUT, "before\n"));
	OK(!is_running('1') && !is_running('2'));

	OK(run((struct guest_exec){.argv = SH_WITH("setsid sleep $1", own('3'))}, 0.5) < 0);
	OK(e.kind == ERR_TIMEOUT && !is_running('3'));

	/* A background process neither holds up the end of its command nor dies with it. */
	OK(run((struct guest_exec){.argv = SH_WITH("sleep $1 & echo $!", own('4'))}, 30) == 0);
	while (!is_running('4') && op_pause(&op, 0.05, &e) == 0)
		; /* it prints its pid before it becomes `sleep` */
	OK(is_running('4'));
	OK(run((struct guest_exec){.argv = SH_WITH("pkill -f \"^sleep $1\\$\"", own('4'))}, 30) ==
		0);
}

static void test_input(void)
{
	static uint8_t much[9 * 1024 * 1024];
	struct guest_exec req = {.argv = ARGV("cat"), .input = true};
	struct op op = op_for_cleanup(30);
	struct inbox *in = NULL;

	for (int round = 0; round < 2; round++) {
		if (inbox_new(16 * 1024 * 1024, &in, &e) < 0)
			abort();
		struct guest_io io = {.in = in, .output = collect};
		inbox_put(in, GUEST_INPUT_DATA, 0, 0,
			(struct bytes){
				round ? much : (const uint8_t *)"a\0b\n", round ? sizeof(much) : 4},
			&e);
		inbox_put(in, GUEST_INPUT_EOF, 0, 0, (struct bytes){0}, &e);
		for (size_t i = 0; i < ARRAY_LEN(got); i++)
			buf_free(&got[i]);
		int rc = guest_exec(g, &op, &req, &io, &end, &e);

		if (round)
			OK(rc < 0 && e.kind == ERR_LIMIT);
		else
			OK(rc == 0 && got[WIRE_STDOUT].len == 4 &&
				memcmp(buf_data(&got[WIRE_STDOUT]), "a\0b\n", 4) == 0);
		inbox_free(in);
	}
}

/* Files. */

static char *path_of(const char *name)
{
	static char path[200];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static int put_file(struct guest_write req, size_t n)
{
	struct op op = op_for_cleanup(60);
	auto_free uint8_t *content = malloc(n + 1);
	auto_inbox struct inbox *in = NULL;
	struct guest_stat st = {0};

	for (size_t i = 0; i < n; i++)
		content[i] = (uint8_t)(i * 7 / 3);
	if (inbox_new(n + 4096, &in, &e) < 0)
		abort();
	inbox_put(in, GUEST_INPUT_DATA, 0, 0, (struct bytes){content, n}, &e);
	inbox_put(in, GUEST_INPUT_EOF, 0, 0, (struct bytes){0}, &e);
	struct guest_io io = {.in = in};
	return guest_write(g, &op, &req, &io, &st, &e) < 0 ? -1 : st.size == n ? 0 : -2;
}

static int get_file(const char *path, uint64_t max, struct guest_stat *st)
{
	struct op op = op_for_cleanup(60);
	struct guest_io io = {.output = collect};

	buf_free(&got[WIRE_BODY]);
	return guest_read(g, &op, &(struct guest_path){.path = path}, max, &io, st, &e);
}

static void test_files(void)
{
	enum { BIG = 9 * 1024 * 1024 + 7 }; /* more than two pieces */
	struct guest_stat st;
	struct stat host;
	bool same = true;

	OK(put_file(
		   (struct guest_write){
			   .at = {.path = path_of("a b/c/f")}, .parents = true, .mode = 0640},
		   BIG) == 0);
	OK(stat(path_of("a b/c/f"), &host) == 0 && (host.st_mode & 07777) == 0640);
	OK(get_file(path_of("a b/c/f"), 0, &st) == 0 && got[WIRE_BODY].len == BIG);
	OK(st.size == BIG && st.mode == 0100640);
	for (size_t i = 0; i < got[WIRE_BODY].len; i++)
		same = same && buf_data(&got[WIRE_BODY])[i] == (uint8_t)(i * 7 / 3);
	tap_ok(same, "the file came back unchanged");
	OK(put_file((struct guest_write){.at = {.path = path_of("a b/c/f")}}, 3) == 0);
	OK(put_file((struct guest_write){.at = {.path = path_of("a b/c/f")}, .append = true}, 2) ==
		0);
	OK(get_file(path_of("a b/c/f"), 5, &st) == 0 && got[WIRE_BODY].len == 5);
	OK(get_file(path_of("a b/c/f"), 4, &st) < 0 && e.kind == ERR_LIMIT && e.sys == EFBIG);
	OK(get_file(path_of("none"), 0, &st) < 0 && e.kind == ERR_NOT_FOUND && e.sys == ENOENT);
	OK(get_file(dir, 0, &st) < 0 && e.kind == ERR_IS_DIR);
	OK(get_file("/proc/self/status", 0, &st) == 0 && got[WIRE_BODY].len > 100);
	OK(put_file((struct guest_write){.at = {.path = dir}}, 3) < 0 && e.kind == ERR_IS_DIR);
	OK(put_file((struct guest_write){.at = {.path = path_of("no/f")}}, 3) < 0 &&
		e.kind == ERR_NOT_FOUND);
	OK(put_file((struct guest_write){.at = {.path = "-n", .cwd = dir}}, 3) == 0);
	OK(get_file(path_of("-n"), 0, &st) == 0 && got[WIRE_BODY].len == 3);
	OK(put_file((struct guest_write){.at = {.path = "/etc/moat-x", .user = "nobody"}}, 3) < 0 &&
		e.kind == ERR_PERMISSION && e.sys == EACCES);
}

static int add_name(void *arg, const struct guest_entry *entry, struct err *err)
{
	return buf_printf(arg, err, "%s>%s %o;", entry->name, entry->target, entry->mode >> 12);
}

static int list(const char *path, char **ret)
{
	struct op op = op_for_cleanup(30);
	struct buf b = {0};
	int rc = guest_list(g, &op, &(struct guest_path){.path = path}, add_name, &b, &e);

	free(*ret);
	*ret = buf_take_str(&b);
	return rc;
}

static void test_dirs(void)
{
	struct op op = op_for_cleanup(60);
	auto_free char *names = NULL;

	OK(guest_mkdir(g, &op, &(struct guest_path){.path = path_of("d/e")}, 0700, &e) == 0);
	OK(guest_mkdir(g, &op, &(struct guest_path){.path = path_of("d/e")}, 0, &e) == 0);
	OK(guest_symlink(g, &op, &(struct guest_path){.path = path_of("d/l")}, "../t", &e) == 0);
	OK(guest_symlink(g, &op, &(struct guest_path){.path = path_of("d/l")}, "u", &e) < 0 &&
		e.sys == EEXIST);
	OK(put_file((struct guest_write){.at = {.path = path_of("d/.h\nx")}}, 1) == 0);
	OK(list(path_of("d"), &names) == 0);
	STR_IS(names, "e> 4;l>../t 12;.h\nx> 10;");
	OK(list(path_of("d/e"), &names) == 0);
	STR_IS(names, "");
	OK(list(path_of("d/.h\nx"), &names) == 0);
	STR_IS(names, "> 10;");
	OK(list(path_of("none"), &names) < 0 && e.kind == ERR_NOT_FOUND);
	OK(guest_mkdir(g, &op, &(struct guest_path){.path = path_of("d/.h\nx")}, 0, &e) < 0 &&
		e.sys == EEXIST);
}

/* The script's last line, as a hostile guest may print it. */
static bool parse(const char *text, struct guest_exit *ret, char **left)
{
	struct buf b = {0};
	bool found;

	buf_add_str(&b, text, &e);
	found = agent_parse_end(&b, "TAG", ret);
	free(*left);
	*left = buf_take_str(&b);
	return found;
}

static void test_parse_end(void)
{
	auto_free char *left = NULL;
	struct guest_exit x;

	OK(parse("err\n\nTAG end 3 10 4\n", &x, &left) && x.code == 3 && x.stdout_bytes == 10);
	STR_IS(left, "err\n");
	OK(parse("\nTAG cwd 20 /x: no\n\nTAG end 125 0 20\n", &x, &left) &&
		x.stage == GUEST_NO_CWD && x.sys == 20);
	STR_IS(x.message, "/x: no");
	STR_IS(left, "");
	OK(parse("\nTAG user 2 no\x1b\n", &x, &left) && x.stage == GUEST_NO_USER);
	STR_IS(x.message, "no\\x1b");
	OK(parse("x\nTAG end 125 0 1\n", &x, &left) && x.code == 125 && x.stage == GUEST_RAN);
	OK(!parse("", &x, &left) && !parse("\n", &x, &left) &&
		!parse("TAG end 1 2 3\n", &x, &left));
	OK(!parse("\nTAG end 1 2\n", &x, &left) && !parse("\nTAG \n", &x, &left));
	OK(!parse("\nTAGend 1 2 3\n", &x, &left) && !parse("\nTAG end 1 2 3", &x, &left));
	OK(!parse("\nTAG end -1 2 3\n", &x, &left) || x.code >= 0);
}

int main(void)
{
	struct peer peer;
	struct qga *q;

	if (tap_needs_root("it runs commands as other users"))
		return 0;
	signal(SIGPIPE, SIG_IGN);
	if (!mkdtemp(dir) || qga_open(peer_start(&peer, really, NULL), &q, &e) < 0 ||
		agent_open(q, false, &g, &e) < 0)
		abort();
	STR_IS(guest_link_name(g), "agent");
	test_parse_end();
	test_exec();
	test_not_run();
	test_user();
	test_giving_up();
	test_input();
	test_files();
	test_dirs();
	guest_free(g);
	qga_close(q);
	close(peer.ours);
	peer_join(&peer);
	for (size_t i = 0; i < ARRAY_LEN(got); i++)
		buf_free(&got[i]);
	OK(dir_remove(dir, &e) == 0);
	return tap_done();
}
