#include "util/system/proc.h"

#include <pthread.h>
#include <string.h>
#include <sys/resource.h>

#include "tap.h"
#include "scratch.h"
#include "util/str.h"

static const char *text_of(struct buf *b)
{
	struct err e;

	if (buf_add(b, "", 1, &e) < 0)
		abort();
	return (const char *)buf_data(b);
}

#define SH(script) ((const char *[]){"sh", "-c", script, NULL})

static void test_output(void)
{
	struct op op = op_for_cleanup(30);
	struct proc_req req = {.argv = SH("cat; echo words >&2; exit 3"), .out_max = 1000};
	auto_proc_result struct proc_result res = {0};
	struct err e;

	req.input = (struct bytes){(const uint8_t *)"to stdin", 8};
	OK(proc_run(&op, &req, &res, &e) == 0 && res.exit_code == 3);
	STR_IS(text_of(&res.out), "to stdin");
	STR_IS(text_of(&res.err), "words\n");
}

/* The number of files that a process may have open can be small. */
static void test_few_files(void)
{
	struct op op = op_for_cleanup(30);
	struct proc_req req = {.argv = SH("echo fine"), .out_max = 1000};
	auto_proc_result struct proc_result res = {0}, again = {0};
	struct rlimit had, few;
	struct err e;

	if (getrlimit(RLIMIT_NOFILE, &had) < 0)
		abort();
	few = (struct rlimit){.rlim_cur = 100, .rlim_max = had.rlim_max};
	setrlimit(RLIMIT_NOFILE, &few);
	OK(proc_run(&op, &req, &res, &e) < 0 && e.kind == ERR_LIMIT);
	OK(strstr(e.msg, "ulimit -n must be above 280"));
	setrlimit(RLIMIT_NOFILE, &had);
	OK(proc_run(&op, &req, &again, &e) == 0 && again.exit_code == 0);
}

static void test_environment(void)
{
	struct op op = op_for_cleanup(30);
	struct proc_req req = {.argv = SH("echo $THERE; pwd; echo $HOME"), .out_max = 1000};
	auto_proc_result struct proc_result res = {0};
	struct err e;

	req.env = (const char *[]){"THERE=yes", NULL};
	req.cwd = "/";
	OK(proc_run(&op, &req, &res, &e) == 0);
	STR_IS(text_of(&res.out), "yes\n/\n\n");
}

static void test_limits(void)
{
	enum { BIG = 300000 };
	struct op op = op_for_cleanup(30);
	struct proc_req req = {.argv = SH("cat /dev/zero"), .out_max = 100000};
	auto_proc_result struct proc_result res = {0}, whole = {0};
	auto_free uint8_t *big = calloc(1, BIG);
	struct err e;

	OK(proc_run(&op, &req, &res, &e) < 0 && e.kind == ERR_LIMIT);
	STR_IS(e.msg, "sh: it printed more than 100000 bytes");
	req.argv = SH("cat /dev/zero >&2");
	OK(proc_run(&op, &req, &res, &e) < 0 && e.kind == ERR_LIMIT);
	req.out_max = 0;
	OK(proc_run(&op, &req, &res, &e) < 0 && e.kind == ERR_INTERNAL);
	/* Both directions at once, each more than a pipe holds. */
	req = (struct proc_req){.argv = SH("cat"), .out_max = BIG, .input = {big, BIG}};
	OK(proc_run(&op, &req, &whole, &e) == 0 && whole.out.len == BIG);
	/* A child that does not read its input. */
	req.argv = SH("exit 0");
	OK(proc_run(&op, &req, &res, &e) == 0 && res.exit_code == 0);
}

static void test_failures(void)
{
	struct op op = op_for_cleanup(30);
	struct proc_req req = {
		.argv = (const char *[]){"moat-no-such-program", NULL}, .out_max = 1000};
	auto_proc_result struct proc_result res = {0};
	struct err e;

	OK(proc_run(&op, &req, &res, &e) < 0 && e.kind == ERR_NOT_FOUND);
	STR_IS(e.msg, "cannot run moat-no-such-program: No such file or directory");
	req.argv = SH("echo first >&2; echo 'the reason' >&2; echo >&2; exit 4");
	OK(proc_run_ok(&op, &req, &e) < 0 && e.kind == ERR_BACKEND && e.sys == 4);
	STR_IS(e.msg, "sh: the reason");
	req.argv = SH("exit 1");
	OK(proc_run_ok(&op, &req, &e) < 0);
	STR_IS(e.msg, "sh: failed without a word");
	req.argv = SH("exit 0");
	OK(proc_run_ok(&op, &req, &e) == 0);
	req.argv = SH("kill -9 $$");
	OK(proc_run(&op, &req, &res, &e) == 0 && res.exit_code == 137);
	req.cwd = at("missing");
	OK(proc_run(&op, &req, &res, &e) < 0 && e.kind == ERR_NOT_FOUND);
}

/* Our fds reach the child under the numbers asked for, and no other one does. */
static void test_fds(void)
{
	auto_fd int a = open(at("a"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	auto_fd int b = open(at("b"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	/* Crossed: each wants the number that the other one has in this process. */
	struct proc_fd fds[] = {{.fd = a, .as = b}, {.fd = b, .as = a}, {.fd = a, .as = 9}};
	struct op op = op_for_cleanup(30);
	struct proc_req req = {.out_max = 1000, .fds = fds, .n_fds = 3};
	auto_free char *in_a = NULL, *in_b = NULL;
	auto_proc_result struct proc_result res = {0};
	char script[200];
	struct err e;

	snprintf(script, sizeof(script),
		"echo to-a >&%d; echo to-b >&%d; echo again-a >&9; ls /proc/$$/fd; :", b, a);
	req.argv = SH(script);
	OK(a < 9 && b < 9 && proc_run(&op, &req, &res, &e) == 0);
	in_a = get_file(at("a"));
	in_b = get_file(at("b"));
	STR_IS(in_a, "to-a\nagain-a\n");
	STR_IS(in_b, "to-b\n");
	snprintf(script, sizeof(script), "0\n1\n2\n%d\n%d\n9\n", a < b ? a : b, a < b ? b : a);
	STR_IS(text_of(&res.out), script);
	OK(fcntl(a, F_GETFD) == FD_CLOEXEC); /* still ours, and unchanged */
}

/* Two of the real-time signals belong to the C library. */
static void test_signals_are_clean(void)
{
	struct op op = op_for_cleanup(30);
	struct proc_req req = {
		.argv = (const char *[]){"cat", "/proc/self/status", NULL}, .out_max = 10000};
	auto_proc_result struct proc_result res = {0};
	unsigned long long blocked = 0, ignored = 0;
	sigset_t all, old;
	const char *status;
	struct err e;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	OK(proc_run(&op, &req, &res, &e) == 0);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	status = text_of(&res.out);
	OK(sscanf(strstr(status, "SigBlk:"), "SigBlk: %llx", &blocked) == 1);
	OK(sscanf(strstr(status, "SigIgn:"), "SigIgn: %llx", &ignored) == 1);
	OK(blocked == 0 && (ignored & 0x7fffffff) == 0);
}

static bool alive(int pid)
{
	auto_free char *status = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	status = get_file(path);
	return status && !strstr(status, "State:\tZ");
}

static int pid_in(const char *path)
{
	auto_free char *text = get_file(path);

	return text && str_ends(text, "\n") ? atoi(text) : 0;
}

static void *cancel_when_started(void *arg)
{
	if (!EVENTUALLY(pid_in(at("grandchild")) > 0))
		printf("# the grandchild did not start\n");
	op_cancel(arg);
	return NULL;
}

static void test_cancel_kills_tree(void)
{
	struct proc_req req = {.out_max = 1000,
		.cwd = scratch,
		.argv = SH("sh -c 'echo $$ >grandchild; sleep 1000; :' & echo $$ >child; wait")};
	auto_proc_result struct proc_result res = {0};
	int64_t start = now_ns();
	pthread_t thread;
	struct op op;
	struct err e;

	OK(op_init(&op, "t", 60, &e) == 0);
	pthread_create(&thread, NULL, cancel_when_started, &op);
	OK(proc_run(&op, &req, &res, &e) < 0 && e.kind == ERR_CANCELLED);
	pthread_join(thread, NULL);
	OK(seconds_since(start) < 40);
	OK(!alive(pid_in(at("child"))));
	OK(EVENTUALLY(!alive(pid_in(at("grandchild")))));
	op_done(&op);
}

static void test_deadline(void)
{
	struct proc_req req = {.out_max = 1000, .argv = SH("exec sleep 1000")};
	auto_proc_result struct proc_result res = {0};
	struct op op = op_for_cleanup(0.1);
	int64_t start = now_ns();
	struct err e;

	OK(proc_run(&op, &req, &res, &e) < 0 && e.kind == ERR_TIMEOUT);
	STR_IS(e.msg, "sh: timed out");
	OK(seconds_since(start) < 30);
}

static void test_start_and_wait(void)
{
	auto_fd int out = open(at("out"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct proc_req req = {.argv = SH("echo hello; read x || exit 8"), .out_fd = out};
	struct op op = op_for_cleanup(30), brief = op_for_cleanup(0.05);
	auto_proc struct proc p = PROC_NONE;
	auto_free char *text = NULL;
	struct err e;
	int code = -1, pid;

	proc_kill(&p); /* nothing to end */
	OK(proc_start(&req, &p, &e) == 0 && p.pid > 0 && p.lifeline == -1);
	OK(proc_wait(&op, &p, &code, &e) == 0 && code == 8 && p.pid == -1);
	text = get_file(at("out"));
	STR_IS(text, "hello\n");
	proc_kill(&p);
	req.argv = SH("exec sleep 1000");
	OK(proc_start(&req, &p, &e) == 0);
	OK(proc_wait(&brief, &p, &code, &e) < 0 && e.kind == ERR_TIMEOUT && code == 8);
	pid = p.pid;
	proc_kill(&p);
	OK(p.pid == -1 && p.pidfd == -1 && kill(pid, 0) < 0 && errno == ESRCH);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN); /* as the daemon does */
	forget_inherited_fds();
	scratch_begin();
	test_fds(); /* first: while small numbers are free */
	test_output();
	test_few_files();
	test_environment();
	test_limits();
	test_failures();
	test_signals_are_clean();
	test_cancel_kills_tree();
	test_deadline();
	test_start_and_wait();
	scratch_end();
	return tap_done();
}
