/* No process below a guard outlives it, whichever process dies, and however. */
#include "util/system/guard.h"

#include <ctype.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>

#include "tap.h"
#include "scratch.h"
#include "util/system/confine.h"
#include "util/system/proc.h"

static char marker[64]; /* an argument of sleep that no other test's processes have */

/* Whether one argument of this NUL-separated command line is the marker. */
static bool has_marker(const char *args, size_t len)
{
	for (const char *a = args; a < args + len; a += strlen(a) + 1)
		if (strcmp(a, marker) == 0)
			return true;
	return false;
}

/* Counts the processes that sleep for our number of seconds: the leaves of the trees below. */
static unsigned sleepers(void)
{
	auto_dir DIR *d = opendir("/proc");
	struct dirent *ent;
	unsigned n = 0;

	while (d && (ent = readdir(d))) {
		auto_free char *args = NULL;
		char path[300];
		struct err e;
		size_t len;

		snprintf(path, sizeof(path), "/proc/%s/cmdline", ent->d_name);
		if (isdigit((unsigned char)ent->d_name[0]) &&
			file_read(path, 1 << 20, &args, &len, &e) == 0 &&
			strcmp(args, "sleep") == 0)
			n += has_marker(args, len);
	}
	return n;
}

/* Ends the processes that a gentle guard leaves. */
static void end_sleepers(void)
{
	auto_dir DIR *d = opendir("/proc");
	struct dirent *ent;

	while (d && (ent = readdir(d))) {
		auto_free char *args = NULL;
		char path[300];
		struct err e;
		size_t len;

		snprintf(path, sizeof(path), "/proc/%s/cmdline", ent->d_name);
		if (isdigit((unsigned char)ent->d_name[0]) &&
			file_read(path, 1 << 20, &args, &len, &e) == 0 &&
			strcmp(args, "sleep") == 0 && has_marker(args, len))
			kill(atoi(ent->d_name), SIGKILL);
	}
	OK(EVENTUALLY(sleepers() == 0));
}

/* Three leaves: a child, one in a session of its own, one that also lost its parent. */
static int start_tree(bool isolate, struct proc *ret, struct err *e)
{
	char script[300];
	const char *argv[] = {"sh", "-c", script, NULL};
	struct proc_req req = {.argv = argv, .guard = self, .confine = isolate ? "vm" : NULL};

	snprintf(script, sizeof(script),
		"setsid sleep %s & (setsid sh -c 'trap \"\" TERM HUP; sleep %s; :' &) ; sleep %s; "
		":",
		marker, marker, marker);
	return proc_start(&req, ret, e);
}

static void test_lifeline(bool isolate)
{
	auto_proc struct proc p = PROC_NONE;
	struct err e;
	int pid;

	OK(start_tree(isolate, &p, &e) == 0 && p.lifeline >= 0);
	pid = p.pid;
	OK(EVENTUALLY(sleepers() == 3));
	proc_kill(&p);
	OK(sleepers() == 0); /* at once: proc_kill returns when all have ended */
	OK(kill(pid, 0) < 0 && errno == ESRCH);
}

static void test_end_is_seen_when_all_is_gone(bool isolate)
{
	auto_proc struct proc p = PROC_NONE;
	struct pollfd ended = {.events = POLLIN};
	struct err e;

	OK(start_tree(isolate, &p, &e) == 0);
	OK(EVENTUALLY(sleepers() == 3));
	proc_end(&p);
	proc_end(&p); /* a second call does nothing */
	ended.fd = p.pidfd;
	OK(poll(&ended, 1, 60000) == 1 && sleepers() == 0);
	proc_kill(&p);
	OK(p.pid < 0);
}

/* Plays a daemon that is killed: this program again, which starts a tree and waits. */
static int be_parent(bool isolate)
{
	struct proc p;
	struct err e;

	if (start_tree(isolate, &p, &e) < 0)
		return 1;
	pause();
	return 0;
}

static void test_parent_killed(bool isolate)
{
	const char *argv[] = {self, isolate ? "parent-isolate" : "parent", marker, NULL};
	struct proc_req req = {.argv = argv};
	auto_proc struct proc p = PROC_NONE;
	struct op op = op_for_cleanup(30);
	struct err e;
	int code = 0;

	OK(proc_start(&req, &p, &e) == 0);
	OK(EVENTUALLY(sleepers() == 3));
	OK(kill(p.pid, SIGKILL) == 0); /* only itself, not its group */
	OK(proc_wait(&op, &p, &code, &e) == 0 && code == 137);
	OK(EVENTUALLY(sleepers() == 0));
}

/* A guard that was stopped is told to go on, and does what it is for. */
static void test_guard_stopped(bool isolate)
{
	auto_proc struct proc p = PROC_NONE;
	struct err e;

	OK(start_tree(isolate, &p, &e) == 0);
	OK(EVENTUALLY(sleepers() == 3));
	OK(kill(p.pid, SIGSTOP) == 0);
	proc_kill(&p);
	OK(sleepers() == 0);
}

static pid_t only_child_of(pid_t parent)
{
	char path[64];
	auto_file FILE *f = NULL;
	int child = -1;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent, (int)parent);
	f = fopen(path, "re");
	return f && fscanf(f, "%d", &child) == 1 ? child : -1;
}

/* Also where nobody is left to tell it. */
static void test_guard_stopped_and_parent_killed(bool isolate)
{
	const char *argv[] = {self, isolate ? "parent-isolate" : "parent", marker, NULL};
	struct proc_req req = {.argv = argv};
	auto_proc struct proc p = PROC_NONE;
	struct op op = op_for_cleanup(30);
	struct err e;
	pid_t guard;
	int code = 0;

	OK(proc_start(&req, &p, &e) == 0);
	OK(EVENTUALLY(sleepers() == 3));
	guard = only_child_of(p.pid);
	OK(guard > 0 && kill(guard, SIGSTOP) == 0);
	OK(kill(p.pid, SIGKILL) == 0); /* only itself, not its group */
	OK(proc_wait(&op, &p, &code, &e) == 0 && code == 137);
	OK(EVENTUALLY(sleepers() == 0));
	kill(guard, SIGCONT); /* where that failed */
}

/* The pid namespace is the second barrier: even if the guard itself is killed, all others end. */
static void test_guard_killed(void)
{
	auto_proc struct proc p = PROC_NONE;
	struct err e;

	OK(start_tree(true, &p, &e) == 0);
	OK(EVENTUALLY(sleepers() == 3));
	OK(kill(p.pid, SIGKILL) == 0);
	proc_kill(&p);
	OK(sleepers() == 0); /* at once: what they had open is free again */
}

/* Without a pid namespace, the process that waits for the guard ends its group. */
static void test_guard_killed_without_namespace(void)
{
	char script[200];
	const char *argv[] = {"sh", "-c", script, NULL};
	struct proc_req req = {.argv = argv, .guard = self};
	auto_proc struct proc p = PROC_NONE;
	struct op op = op_for_cleanup(60);
	struct err e;
	int code = 0;

	snprintf(script, sizeof(script), "sleep %s & sleep %s; :", marker, marker);
	OK(proc_start(&req, &p, &e) == 0);
	OK(EVENTUALLY(sleepers() == 2));
	OK(kill(p.pid, SIGKILL) == 0);
	OK(proc_wait(&op, &p, &code, &e) == 0 && code == 137);
	OK(EVENTUALLY(sleepers() == 0));
}

/* Runs a script and returns its exit code, or -1. *res is the result of the last run. */
static int run(const char *script, bool isolate, struct proc_result *res)
{
	struct proc_req req = {.argv = (const char *[]){"sh", "-c", script, NULL},
		.out_max = 4096,
		.guard = self,
		.confine = isolate ? "vm" : NULL};
	struct op op = op_for_cleanup(60);
	struct err e;

	proc_result_free(res);
	if (proc_run(&op, &req, res, &e) == 0)
		return res->exit_code;
	printf("# %s\n", e.msg);
	return -1;
}

/* When the command ends by itself, processes that it left behind are killed, too. */
static void test_codes(bool isolate)
{
	static const struct {
		const char *script;
		int code;
	} rows[] = {{"exit 0", 0}, {"exit 37", 37}, {"kill -TERM $$; sleep 100", 143}};
	auto_proc_result struct proc_result res = {0};
	char script[100];

	/* The first process of a pid namespace ignores signals that it sends to itself. */
	for (unsigned i = 0; i < (isolate ? 2 : 3); i++)
		tap_ok(run(rows[i].script, isolate, &res) == rows[i].code, "%s", rows[i].script);
	snprintf(script, sizeof(script), "setsid sleep %s >&2 & exit 5", marker);
	OK(run(script, isolate, &res) == 5 && sleepers() == 0);
}

static void test_bad_command(void)
{
	struct proc_req req = {.argv = (const char *[]){"moat-no-such-program", NULL},
		.out_max = 4096,
		.guard = self};
	auto_proc_result struct proc_result res = {0};
	struct op op = op_for_cleanup(60);
	struct err e;

	OK(proc_run(&op, &req, &res, &e) == 0 && res.exit_code == GUARD_NOT_RUN);
	OK(buf_add(&res.err, "", 1, &e) == 0 &&
		strstr((char *)buf_data(&res.err), "cannot run moat-no-such-program: No such"));
	OK(guard_main(2, (char *[]){(char *)"guard", (char *)"x", NULL}) == 2);
}

/* The command gets no fd of the guard: with one it could hold the lifeline open, or read it. */
static void test_fds(void)
{
	auto_proc_result struct proc_result res = {0};
	struct err e;

	OK(run("ls /proc/$$/fd; :", false, &res) == 0);
	OK(buf_add(&res.out, "", 1, &e) == 0);
	STR_IS((char *)buf_data(&res.out), "0\n1\n2\n");
}

static bool can_unshare(void)
{
	int status = 1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(unshare(CLONE_NEWPID | CLONE_NEWNET) < 0);
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static void test_confined(void)
{
	auto_proc_result struct proc_result res = {0};
	char net[64] = "", pid_ns[64] = "", got_net[64] = "", got_pid_ns[64] = "", caps[64] = "";
	int uid = -1, gid = -1, groups = -1, pid = -1;
	struct err e;

	OK(readlink("/proc/self/ns/net", net, sizeof(net) - 1) > 0);
	OK(readlink("/proc/self/ns/pid", pid_ns, sizeof(pid_ns) - 1) > 0);
	OK(run("echo $$ $(id -u) $(id -g) $(id -G)"
	       " $(readlink /proc/self/ns/net /proc/self/ns/pid)"
	       " $(grep CapEff /proc/self/status)",
		   true, &res) == 0);
	OK(buf_add(&res.out, "", 1, &e) == 0 &&
		sscanf((char *)buf_data(&res.out), "%d %d %d %d %63s %63s CapEff: %63s", &pid, &uid,
			&gid, &groups, got_net, got_pid_ns, caps) == 7);
	if (getuid() == 0)
		OK(uid > CONFINE_IDS);
	else
		OK(uid == (int)getuid());
	OK(pid == 1 && gid == (getuid() == 0 ? uid : (int)getgid()));
	OK(groups == gid);
	OK(got_net[0] && strcmp(net, got_net) != 0);
	OK(got_pid_ns[0] && strcmp(pid_ns, got_pid_ns) != 0);
	STR_IS(caps, "0000000000000000");
}

/* What it sees: programs, itself, nothing else. */
static void test_confined_root(void)
{
	auto_proc_result struct proc_result res = {0};
	char script[300];
	struct err e;

	OK(run("echo /*; echo /etc/*; cd /proc && echo [0-9]* [a-rt-z]*", true, &res) == 0);
	OK(buf_add(&res.out, "", 1, &e) == 0);
	OK(strstr((char *)buf_data(&res.out), "/usr") != NULL);
	OK(strstr((char *)buf_data(&res.out), "/home") == NULL);
	OK(strstr((char *)buf_data(&res.out), "/var") == NULL);
	OK(strstr((char *)buf_data(&res.out), "/etc/passwd") == NULL);
	OK(strstr((char *)buf_data(&res.out), "\n1 [a-rt-z]*\n") != NULL ||
		strstr((char *)buf_data(&res.out), "\n1 thread-self\n") != NULL);
	OK(run("echo >/usr/moat-test", true, &res) != 0);
	OK(run("echo >/dev/null", true, &res) == 0);
	/* A file that all may read. */
	snprintf(script, sizeof(script), "cat %s", at("file"));
	put_file(at("file"), "x");
	OK(chmod(scratch, 0755) == 0 && chmod(at("file"), 0644) == 0);
	OK(run(script, false, &res) == 0);
	OK(run(script, true, &res) != 0);
	OK(run("unshare -U true", false, &res) == 0);
	OK(run("unshare -U true", true, &res) != 0);
}

/* Root in a container often may not make namespaces: it must get a command that is not root, even
 * so. */
static void test_weak_root(void)
{
	auto_proc_result struct proc_result res = {0};
	struct op op = op_for_cleanup(60);
	int lifeline[2], uid = -1, pid = -1, groups = -1;
	struct err e;

	OK(pipe2(lifeline, O_CLOEXEC) == 0);
	struct proc_fd fd = {.fd = lifeline[0], .as = 150};
	struct proc_req req = {.argv = (const char *[]){self, "weak-guard", "--confine", "vm",
				       "150", "--", "sh", "-c", "echo $(id -u) $$ $(id -G)", NULL},
		.out_max = 4096,
		.fds = &fd,
		.n_fds = 1};
	OK(proc_run(&op, &req, &res, &e) == 0 && res.exit_code == 0);
	OK(buf_add(&res.out, "", 1, &e) == 0 &&
		sscanf((char *)buf_data(&res.out), "%d %d %d", &uid, &pid, &groups) == 3);
	OK(uid == CONFINE_IDS + pid && groups == uid);
	close(lifeline[0]);
	close(lifeline[1]);
}

/* For a command that starts processes which are meant to outlive it. */
static void test_gentle(void)
{
	char script[400];
	const char *argv[] = {"sh", "-c", script, NULL};
	struct proc_req req = {.argv = argv, .guard = self, .guard_gentle = true};
	auto_proc struct proc p = PROC_NONE;
	struct op op = op_for_cleanup(60);
	struct err e;
	int code = 0;

	snprintf(script, sizeof(script), "setsid sleep %s & exit 7", marker);
	OK(proc_start(&req, &p, &e) == 0);
	OK(proc_wait(&op, &p, &code, &e) == 0 && code == 7);
	OK(EVENTUALLY(sleepers() == 1));
	end_sleepers();

	/* An interrupt reaches the command once; the guard waits for the command's own end. */
	snprintf(script, sizeof(script),
		"n=0; trap 'n=$((n + 1)); kill $!' INT; sleep %s & wait $!; wait; exit $((40 + n))",
		marker);
	OK(proc_start(&req, &p, &e) == 0);
	OK(EVENTUALLY(sleepers() == 1));
	proc_interrupt(&p);
	OK(proc_wait(&op, &p, &code, &e) == 0 && code == 41);

	/* If we end, the guard kills the command's process group. */
	snprintf(script, sizeof(script), "sleep %s & sleep %s", marker, marker);
	OK(proc_start(&req, &p, &e) == 0);
	OK(EVENTUALLY(sleepers() == 2));
	proc_kill(&p);
	OK(EVENTUALLY(sleepers() == 0));
}

static int be_weak_guard(char **argv)
{
	argv[1] = (char *)"guard";
	if (prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0) == 0)
		execv("/proc/self/exe", argv);
	return 1;
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "weak-guard") == 0)
		return be_weak_guard(argv);
	if (argc > 1 && strcmp(argv[1], "guard") == 0)
		return guard_main(argc - 1, argv + 1);
	forget_inherited_fds();
	scratch_begin();
	if (argc > 2) {
		rmdir(scratch);
		snprintf(marker, sizeof(marker), "%s", argv[2]);
		return be_parent(strcmp(argv[1], "parent-isolate") == 0);
	}
	snprintf(marker, sizeof(marker), "4000.%d", (int)getpid());
	test_lifeline(false);
	test_end_is_seen_when_all_is_gone(false);
	test_parent_killed(false);
	test_guard_stopped(false);
	test_guard_stopped_and_parent_killed(false);
	test_codes(false);
	test_gentle();
	test_bad_command();
	test_fds();
	if (can_unshare()) {
		test_lifeline(true);
		test_end_is_seen_when_all_is_gone(true);
		test_parent_killed(true);
		test_guard_stopped(true);
		test_guard_stopped_and_parent_killed(true);
		test_guard_killed();
		test_guard_killed_without_namespace();
		test_codes(true);
		test_confined();
		test_confined_root();
	} else {
		printf("# no namespaces here: isolation is not tested\n");
	}
	if (getuid() == 0)
		test_weak_root();
	scratch_end();
	return tap_done();
}
