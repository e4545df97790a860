/* Supervisors that are used again. As root. */

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "runner-peer.h"
#include "tap.h"

static struct peer peer;

static struct job run(struct job j)
{
	job_run(&peer, &j);
	return j;
}

static bool exited(const struct job *j, uint32_t code)
{
	return j->end.type == WIRE_EXIT && j->end.how == WIRE_EXITED && j->end.code == code;
}

/* Runs a script that prints a few numbers. */
static bool numbers(const char *script, uint32_t timeout_ms, pid_t *a, pid_t *b)
{
	struct job j = run((struct job){.argv = SH(script), .msg = {.timeout_ms = timeout_ms}});
	bool good = j.end.type == WIRE_EXIT && sscanf(j.out.p, "%d %d", a, b) == (b ? 2 : 1);

	job_free(&j);
	return good;
}

static void test_one_after_the_other(void)
{
	pid_t first = 0, second = 0, third = 0, command = 0;

	OK(numbers("echo $PPID $$", 0, &first, &command));
	OK(first != peer.pid && numbers("echo $PPID", 0, &second, NULL) && second == first);
	OK(numbers("sleep 0.01 & wait; echo $PPID", 0, &third, NULL) && third == first);
	OK(process_gone(&command));
}

static void test_background(void)
{
	pid_t first = 0, second = 0, kept = 0, killed = 0;

	OK(numbers("sleep 1000 & echo $PPID $!", 0, &first, &kept));
	OK(numbers("setsid sleep 1000 & echo $PPID $!; wait", 3000, &second, &killed));
	OK(first != second);
	OK(process_gone(&killed) && !process_gone(&kept));
	OK(numbers("setsid sleep 1000 & echo $PPID $!; wait", 3000, &second, &killed));
	OK(process_gone(&killed) && !process_gone(&kept));
	kill(kept, SIGKILL);
}

/* What a command changes in its own process must not affect the next one. */
static void test_clean(void)
{
	struct job j = run((struct job){
		.argv = SH("cd /; umask 077; ulimit -n 50; trap '' TERM; exec 0</etc/passwd"),
		.user = "nobody",
		.env = ARGV("SECRET=1")});

	OK(exited(&j, 0));
	job_free(&j);
	j = run((struct job){.argv = SH("id -u; pwd; umask; test $(ulimit -n) -gt 50; echo $?;"
					"cat; env | grep -c SECRET; ls /proc/self/fd | wc -l;"
					"grep SigIgn /proc/self/status")});
	STR_IS(j.out.p, "0\n/root\n0022\n0\n0\n4\nSigIgn:\t0000000000000000\n");
	job_free(&j);
	/* with input, without, on a terminal */
	j = run((struct job){.argv = ARGV("cat"), .input = "in", .input_len = 2});
	STR_IS(j.out.p, "in");
	job_free(&j);
	j = run((struct job){.argv = SH("cat; test -t 0 || echo no tty")});
	STR_IS(j.out.p, "no tty\n");
	job_free(&j);
	j = run((struct job){.argv = SH("test -t 0 && test -t 1 && test -t 2 && echo tty"),
		.msg = {.flags = WIRE_EXEC_PTY, .rows = 24, .cols = 80}});
	STR_IS(j.out.p, "tty\r\n");
	job_free(&j);
	j = run((struct job){.argv = ARGV("/nope")});
	OK(j.end.how == WIRE_NO_EXEC && j.end.code == ENOENT);
	job_free(&j);
	j = run((struct job){.argv = SH("tty; sh -c ': </dev/tty' 2>/dev/null || echo none")});
	OK(exited(&j, 0) && strcmp(j.out.p, "not a tty\nnone\n") == 0);
	job_free(&j);
}

static bool has_few(const void *pid)
{
	pid_t found[300];

	return process_children(*(const pid_t *)pid, found, 300) <= 1;
}

static bool has_many(const void *pid)
{
	return !has_few(pid);
}

static void test_killed_while_idle(void)
{
	pid_t idle;
	struct job j;

	OK(wait_until(has_few, &peer.pid));
	OK(process_children(peer.pid, &idle, 1) == 1);
	kill(idle, SIGKILL);
	OK(wait_until(process_gone, &idle));
	j = run((struct job){.argv = SH("exit 3")});
	OK(exited(&j, 3));
	job_free(&j);
}

/* Many at once, with signals and cancels as early as possible. */
static void test_early_orders(void)
{
	enum { N = 12 };
	struct job jobs[N] = {0};
	static const uint32_t ends_by[] = {SIGKILL, SIGTERM, SIGUSR1};
	bool good = true;

	for (int i = 0; i < N; i++) {
		jobs[i].argv = ARGV("sleep", "1000");
		job_start(&peer, &jobs[i]);
		job_order(&peer, &jobs[i],
			&(struct wire_msg){.type = i % 3 ? WIRE_SIGNAL : WIRE_CANCEL,
				.code = i % 3 ? ends_by[i % 3] : 0});
	}
	jobs_finish(&peer, jobs, N);
	for (int i = 0; i < N; i++) {
		good = good && jobs[i].end.how == WIRE_SIGNALED &&
		       jobs[i].end.code == ends_by[i % 3];
		job_free(&jobs[i]);
	}
	OK(good);
}

/* One supervisor is kept, the others end. */
static void test_bounded(void)
{
	enum { N = 40 };
	struct job jobs[N] = {0};
	bool good = true;

	for (int i = 0; i < N; i++) {
		jobs[i].argv = ARGV("cat");
		jobs[i].input = "x";
		jobs[i].input_len = 1;
		job_start(&peer, &jobs[i]);
	}
	OK(wait_until(has_many, &peer.pid));
	jobs_finish(&peer, jobs, N);
	for (int i = 0; i < N; i++) {
		good = good && exited(&jobs[i], 0) && strcmp(jobs[i].out.p, "x") == 0;
		job_free(&jobs[i]);
	}
	OK(good);
	OK(wait_until(has_few, &peer.pid));
}

static size_t resident_kb(pid_t pid)
{
	char path[64], line[256];
	size_t kb = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmRSS: %zu kB", &kb) == 1)
			break;
	if (f)
		fclose(f);
	return kb;
}

enum { MUCH_KB = 40 * 1024 };

static bool runner_holds_much(const void *arg)
{
	(void)arg;
	return resident_kb(peer.pid) > MUCH_KB;
}

/* A supervisor that is made while the runner keeps much output does not keep it, too. */
static void test_small_supervisors(void)
{
	struct job much = {.argv = SH("head -c 60000000 /dev/zero; sleep 1000"),
		.msg = {.flags = WIRE_EXEC_CAPTURE, .max = 60000000}};
	pid_t supervisor = 0;

	job_start(&peer, &much);
	OK(wait_until(runner_holds_much, NULL));
	OK(numbers("echo $PPID", 0, &supervisor, NULL));
	OK(resident_kb(supervisor) > 0 && resident_kb(supervisor) < MUCH_KB / 2);
	job_order(&peer, &much, &(struct wire_msg){.type = WIRE_CANCEL});
	jobs_finish(&peer, &much, 1);
	job_free(&much);
}

static void test_end(void)
{
	pid_t idle[16];
	int n = process_children(peer.pid, idle, 16);
	bool gone = true;

	peer_stop(&peer);
	for (int i = 0; i < n; i++)
		gone = gone && wait_until(process_gone, &idle[i]);
	OK(n > 0 && gone);
}

int main(void)
{
	if (tap_needs_root("it runs commands as other users"))
		return 0;
	peer_start(&peer);
	test_one_after_the_other();
	test_background();
	test_clean();
	test_killed_while_idle();
	test_early_orders();
	test_bounded();
	test_small_supervisors();
	test_end();
	return tap_done();
}
