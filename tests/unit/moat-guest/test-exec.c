/* Commands through the real runner. As root; some parts need a user "nobody". */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner-peer.h"
#include "tap.h"

enum { BIG = 8 * 1024 * 1024 };

static struct peer peer;

/* Runs a command and returns the job, which the caller checks and frees. */
static struct job run(struct job j)
{
	job_run(&peer, &j);
	return j;
}

static bool exited(const struct job *j, uint32_t code)
{
	return j->end.type == WIRE_EXIT && j->end.how == WIRE_EXITED && j->end.code == code &&
	       !j->end.timed_out;
}

static uint8_t *noise(size_t n)
{
	uint8_t *p = malloc(n);
	uint32_t x = 1;

	for (size_t i = 0; i < n; i++) {
		x = x * 1664525 + 1013904223;
		p[i] = (uint8_t)(x >> 24);
	}
	return p;
}

static void test_exactness(void)
{
	char want[300];
	struct job j = run((struct job){.argv = ARGV("/usr/bin/printf", "<%s>", "", "a b", "$HOME",
						"'\"\\", "*", "\n", "\xff\xfe")});

	OK(exited(&j, 0));
	STR_IS(j.out.p, "<><a b><$HOME><'\"\\><*><\n><\xff\xfe>");
	OK(j.end.size == j.out.len && j.end.size2 == 0);
	job_free(&j);

	j = run((struct job){.argv = ARGV("env"), .env = ARGV("A=1=2", "LANG=x", "E=", "HOME=/h")});
	OK(exited(&j, 0));
	snprintf(want, sizeof(want),
		"A=1=2\nLANG=x\nE=\nHOME=/h\n"
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
		"USER=root\nLOGNAME=root\nSHELL=%s\n",
		getpwuid(0)->pw_shell);
	STR_IS(j.out.p, want);
	job_free(&j);

	j = run((struct job){.argv = SH("printf out; printf err >&2; exit 7")});
	OK(exited(&j, 7));
	STR_IS(j.out.p, "out");
	STR_IS(j.err.p, "err");
	OK(j.end.size == 3 && j.end.size2 == 3);
	job_free(&j);

	j = run((struct job){.argv = SH("kill -SEGV $$")});
	OK(j.end.how == WIRE_SIGNALED && j.end.code == SIGSEGV);
	job_free(&j);

	/* stdin is empty, signals and limits have their defaults, the runner's fds are not
	 * inherited */
	j = run((struct job){
		.argv = SH("cat; ls /proc/self/fd | wc -l; cat /proc/self/oom_score_adj;"
			   "grep -E 'Sig(Ign|Blk)' /proc/self/status; umask")});
	STR_IS(j.out.p, "4\n0\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n0022\n");
	job_free(&j);
}

static void test_directories(void)
{
	struct job j = run((struct job){.argv = ARGV("pwd")});

	STR_IS(j.out.p, "/root\n");
	job_free(&j);
	j = run((struct job){.argv = ARGV("pwd"), .cwd = "/usr"});
	STR_IS(j.out.p, "/usr\n");
	job_free(&j);
	j = run((struct job){.argv = ARGV("pwd"), .cwd = "../usr/bin"});
	STR_IS(j.out.p, "/usr/bin\n");
	job_free(&j);
	j = run((struct job){.argv = ARGV("pwd"), .cwd = "/nope"});
	OK(j.end.how == WIRE_NO_CWD && j.end.code == ENOENT);
	STR_IS(j.message.p, "/nope: No such file or directory");
	job_free(&j);
	j = run((struct job){.argv = ARGV("pwd"), .cwd = "/root", .user = "nobody"});
	OK(j.end.how == WIRE_NO_CWD && j.end.code == EACCES);
	job_free(&j);
}

static void test_users(void)
{
	struct job j = run((struct job){
		.argv = SH("id -u; id -g; id -G; echo $HOME $USER"), .user = "nobody"});

	STR_IS(j.out.p, "65534\n65534\n65534\n/ nobody\n");
	job_free(&j);
	j = run((struct job){.argv = SH("id -u; id -g; id -G; echo $HOME $USER"), .user = "4242"});
	STR_IS(j.out.p, "4242\n65534\n65534\n/\n");
	job_free(&j);
	j = run((struct job){.argv = SH("id -u; echo $HOME $USER; pwd"), .user = "65534"});
	STR_IS(j.out.p, "65534\n/ nobody\n/\n");
	job_free(&j);
	j = run((struct job){.argv = ARGV("id"), .user = "bob the builder"});
	OK(j.end.how == WIRE_NO_USER && j.end.code == ENOENT);
	STR_IS(j.message.p, "no such user: bob the builder");
	job_free(&j);
	j = run((struct job){.argv = ARGV("id"), .user = "-1"});
	OK(j.end.how == WIRE_NO_USER);
	job_free(&j);
}

static void test_not_startable(void)
{
	struct job j = run((struct job){.argv = ARGV("/nope")});

	OK(j.end.how == WIRE_NO_EXEC && j.end.code == ENOENT);
	STR_IS(j.message.p, "/nope: No such file or directory");
	job_free(&j);
	j = run((struct job){.argv = ARGV("nope-nope")});
	OK(j.end.how == WIRE_NO_EXEC && j.end.code == ENOENT);
	job_free(&j);
	j = run((struct job){.argv = ARGV("/etc/passwd")});
	OK(j.end.how == WIRE_NO_EXEC && j.end.code == EACCES);
	job_free(&j);
	j = run((struct job){.argv = ARGV("")});
	OK(j.end.how == WIRE_NO_EXEC && j.end.code == ENOENT);
	job_free(&j);
	/* the command's own PATH counts, not the runner's */
	j = run((struct job){.argv = ARGV("env"), .env = ARGV("PATH=/nope:/etc")});
	OK(j.end.how == WIRE_NO_EXEC && j.end.code == ENOENT);
	job_free(&j);
	j = run((struct job){.argv = ARGV("passwd"), .env = ARGV("PATH=/nope:/etc:/bin")});
	OK(j.end.how == WIRE_EXITED); /* not executable in /etc, found later */
	job_free(&j);
}

static void test_many_strings(void)
{
	enum { COUNT = 50000, EACH = 100 };
	const char **argv = calloc(COUNT + 4, sizeof(*argv));
	char *one = malloc(EACH + 1);
	struct job j = {.argv = argv};

	memset(one, 'x', EACH);
	one[EACH] = 0;
	argv[0] = "/bin/sh";
	argv[1] = "-c";
	argv[2] = "echo $#";
	for (int i = 3; i < COUNT + 3; i++)
		argv[i] = one;
	job_run(&peer, &j); /* 5 MB: more than twice what an 8 MiB stack allows */
	OK(exited(&j, 0));
	STR_IS(j.out.p, "49999\n");
	job_free(&j);
	free(one);
	one = calloc(1, 200000);
	memset(one, 'y', 199999);
	j = run((struct job){
		.argv = ARGV("/bin/true", one)}); /* a string too long for the kernel */
	OK(j.end.how == WIRE_NO_EXEC && j.end.code == E2BIG);
	job_free(&j);
	free(one);
	free(argv);
}

static void test_input(void)
{
	uint8_t *data = noise(BIG);
	struct job j = run((struct job){.argv = ARGV("cat"), .input = data, .input_len = BIG});

	OK(exited(&j, 0) && j.out.len == BIG && memcmp(j.out.p, data, BIG) == 0);
	job_free(&j);
	j = run((struct job){.argv = SH("cat >&2; exit 3"), .input = data, .input_len = 100000});
	OK(exited(&j, 3) && j.err.len == 100000 && memcmp(j.err.p, data, 100000) == 0);
	job_free(&j);
	/* the command does not read it; the runner takes and credits it all the same */
	j = run((struct job){.argv = SH("exec <&-; sleep 1; echo done"),
		.input = data,
		.input_len = BIG,
		.keep_input_open = true});
	OK(exited(&j, 0) && j.sent == BIG);
	job_free(&j);
	/* a command that reads a little and exits */
	j = run((struct job){.argv = ARGV("head", "-c", "5"), .input = data, .input_len = BIG});
	OK(exited(&j, 0) && j.out.len == 5);
	job_free(&j);
	j = run((struct job){.argv = ARGV("cat"), .input = "", .input_len = 0});
	OK(exited(&j, 0) && j.out.len == 0);
	job_free(&j);
	free(data);
}

static void test_timeout(void)
{
	struct job j = run((struct job){
		.argv = SH("(setsid sh -c 'sleep 1000 & echo $!; sleep 1000' & )\n"
			   "sleep 1000 & echo $!; sh -c 'trap \"\" TERM HUP; sleep 1000' & wait"),
		.msg = {.timeout_ms = 3000}});
	pid_t a = 0, b = 0;

	OK(j.end.how == WIRE_SIGNALED && j.end.code == SIGKILL && j.end.timed_out);
	OK(sscanf(j.out.p, "%d %d", &a, &b) == 2);
	OK(process_gone(&a) && process_gone(&b)); /* at once: they died before the answer */
	job_free(&j);
	j = run((struct job){.argv = SH("echo early; exit 5"), .msg = {.timeout_ms = 60000}});
	OK(exited(&j, 5));
	job_free(&j);
	j = run((struct job){.argv = SH("while :; do setsid sleep 1000 & done"),
		.msg = {.timeout_ms = 500, .flags = WIRE_EXEC_CAPTURE}});
	OK(j.end.timed_out);
	job_free(&j);
}

static bool no_supervisors(const void *arg)
{
	pid_t supervisor;

	(void)arg;
	return process_children(peer.pid, &supervisor, 1) == 0;
}

/* Before a process has executed its command, it may block where only SIGKILL ends it. */
static void test_timeout_in_dead_file_system(void)
{
	char dir[] = "/tmp/runner-test-dead.XXXXXX", cwd[64], options[100];
	int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	struct job j;

	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fuse);
	OK(mkdtemp(dir) && mount("dead", dir, "fuse", MS_NOSUID | MS_NODEV, options) == 0);
	snprintf(cwd, sizeof(cwd), "%s/sub", dir);
	j = run((struct job){.argv = ARGV("pwd"), .cwd = cwd, .msg = {.timeout_ms = 300}});
	OK(j.end.how == WIRE_SIGNALED && j.end.code == SIGKILL && j.end.timed_out);
	job_free(&j);
	OK(wait_until(no_supervisors, NULL)); /* nothing waits for the background process */
	OK(umount2(dir, MNT_DETACH) == 0 && rmdir(dir) == 0);
	close(fuse);
}

static bool is_there(const void *path)
{
	return access(path, F_OK) == 0;
}

static void test_background(void)
{
	char script[300], go[64], alive[64];
	struct job j = {.argv = SH(script)};
	pid_t pid = 0;
	FILE *f;

	snprintf(go, sizeof(go), "/tmp/runner-test-go.%d", (int)getpid());
	snprintf(alive, sizeof(alive), "/tmp/runner-test-alive.%d", (int)getpid());
	snprintf(script, sizeof(script),
		"sh -c 'until [ -e %s ]; do sleep 0.1; done;"
		"echo late; echo late; : >%s; sleep 1000' & echo $!",
		go, alive);
	job_run(&peer, &j);
	OK(exited(&j, 0)); /* although a process still has the pipe open */
	OK(sscanf(j.out.p, "%d", &pid) == 1 && !process_gone(&pid));
	f = fopen(go, "w");
	OK(f && fclose(f) == 0 && wait_until(is_there, alive));
	OK(!process_gone(&pid));      /* no SIGPIPE */
	kill(-getpgid(pid), SIGKILL); /* killed together with its sleep */
	unlink(go);
	unlink(alive);
	job_free(&j);
	/* a background process that writes for ever delays nothing */
	j = run((struct job){.argv = SH("yes & echo $! >&2")});
	OK(exited(&j, 0) && sscanf(j.err.p, "%d", &pid) == 1);
	kill(pid, SIGKILL);
	job_free(&j);
}

static void test_capture(void)
{
	struct job j = run((struct job){.argv = SH("seq 1000000; seq 5 >&2"),
		.msg = {.flags = WIRE_EXEC_CAPTURE, .max = 20}});

	OK(exited(&j, 0));
	STR_IS(j.out.p, "9998\n999999\n1000000\n");
	STR_IS(j.err.p, "1\n2\n3\n4\n5\n");
	OK(j.end.size == 6888896 && j.end.size2 == 10);
	job_free(&j);
	j = run((struct job){
		.argv = SH("seq 1000000"), .msg = {.flags = WIRE_EXEC_CAPTURE, .max = 10 << 20}});
	OK(exited(&j, 0) && j.out.len == 6888896 && memcmp(j.out.p, "1\n2\n3\n", 6) == 0);
	job_free(&j);
	j = run((struct job){.argv = SH("seq 100000; sleep 100"),
		.msg = {.flags = WIRE_EXEC_CAPTURE, .max = 7, .timeout_ms = 4000}});
	OK(j.end.timed_out && j.end.size == 588895);
	STR_IS(j.out.p, "100000\n");
	job_free(&j);
}

/* Without credit the command blocks. Others do not, and no byte is lost. */
static void test_backpressure(void)
{
	struct job slow = {.argv = SH("seq 300000; echo done >&2")}, other;
	struct peer_bytes body;
	struct wire_msg m;

	job_start(&peer, &slow);
	while (peer_next(&peer, slow.out.len < WIRE_WINDOW ? PATIENCE_MS : 700, &m, &body)) {
		if (m.type != WIRE_DATA || m.id != slow.id)
			abort();
		peer_append(&slow.out, body);
	}
	OK(slow.out.len == WIRE_WINDOW);
	other = run((struct job){.argv = ARGV("echo", "hi")});
	STR_IS(other.out.p, "hi\n");
	job_free(&other);
	job_order(&peer, &slow, &(struct wire_msg){.type = WIRE_CREDIT, .count = WIRE_WINDOW});
	jobs_finish(&peer, &slow, 1);
	OK(exited(&slow, 0) && slow.out.len == 1988895 && slow.end.size == 1988895);
	OK(memcmp(slow.out.p + slow.out.len - 14, "299999\n300000\n", 14) == 0);
	STR_IS(slow.err.p, "done\n");
	job_free(&slow);
}

/* Sends the signal until it has an effect: a shell may lose one just before it starts a program. */
static void signal_until_exit(struct job *j, uint32_t number)
{
	struct wire_msg order = {.type = WIRE_SIGNAL, .code = number};
	struct peer_bytes body;

	for (int tries = 0; tries < 200; tries++) {
		job_order(&peer, j, &order);
		while (peer_next(&peer, 300, &j->end, &body))
			if (j->end.type == WIRE_EXIT)
				return;
	}
}

static void test_cancel_and_signal(void)
{
	struct job j = {.argv = SH("sleep 1000 & echo $!; wait"), .msg = {0}};
	struct peer_bytes body;
	struct wire_msg m;
	size_t got = 0;
	pid_t pid = 0;

	job_start(&peer, &j);
	OK(peer_next(&peer, 10000, &m, &body) && sscanf(body.p, "%d", &pid) == 1);
	job_order(&peer, &j, &(struct wire_msg){.type = WIRE_CANCEL});
	jobs_finish(&peer, &j, 1);
	OK(j.end.how == WIRE_SIGNALED && j.end.code == SIGKILL && !j.end.timed_out);
	OK(process_gone(&pid));
	job_free(&j);

	j = (struct job){.argv = SH("trap 'echo usr1; exit 9' USR1; echo up; while :; do sleep 0.1;"
				    "done")};
	job_start(&peer, &j);
	OK(peer_next(&peer, 10000, &m, &body));
	signal_until_exit(&j, SIGUSR1);
	OK(exited(&j, 9));

	/* cancelled while the window is full: the answer needs no credit */
	j = (struct job){.argv = ARGV("yes")};
	job_start(&peer, &j);
	while (peer_next(&peer, got < WIRE_WINDOW ? PATIENCE_MS : 700, &m, &body))
		got += body.len;
	job_order(&peer, &j, &(struct wire_msg){.type = WIRE_CANCEL});
	OK(peer_next(&peer, 10000, &m, &body) && m.type == WIRE_EXIT && m.id == j.id);
}

static bool supervisor_of(pid_t pid, pid_t *ret)
{
	char path[64], line[512] = "", *after;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "r");
	after = f && fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	if (f)
		fclose(f);
	return after && sscanf(after + 1, " %*c %d", ret) == 1;
}

/* Whether no process of the session lives; one that waits to be reaped is dead. */
static bool session_gone(const void *session)
{
	DIR *d = opendir("/proc");
	struct dirent *entry;
	bool gone = d != NULL;

	while (gone && (entry = readdir(d))) {
		char path[300], line[512] = "", *after, state = 'Z';
		int of = 0;
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%s/stat", entry->d_name);
		f = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' ? fopen(path, "r") : NULL;
		after = f && fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
		if (after && sscanf(after + 1, " %c %*d %*d %d", &state, &of) == 2)
			gone = of != *(const pid_t *)session || state == 'Z' || state == 'X';
		if (f)
			fclose(f);
	}
	if (d)
		closedir(d);
	return gone;
}

/* The supervisor is killed: nothing of its command is left, background processes included, nor what
 * the command was just starting. */
static void test_lost_supervisor(uint32_t flags)
{
	struct job j = {.argv = SH("sleep 1000 & echo $$ $!;"
				   "for i in 1 2 3 4 5 6 7 8 9; do sleep 1000 & done; sleep 1000"),
		.msg = {.flags = flags}};
	struct peer_bytes body;
	struct wire_msg m;
	pid_t pid = 0, behind = 0, parent = 0;

	job_start(&peer, &j);
	OK(peer_next(&peer, 10000, &m, &body) && sscanf(body.p, "%d %d", &pid, &behind) == 2);
	OK(supervisor_of(pid, &parent) && parent != peer.pid);
	kill(parent, SIGKILL);
	jobs_finish(&peer, &j, 1);
	OK(j.end.how == WIRE_SIGNALED && j.end.code == SIGKILL);
	OK(wait_until(process_gone, &pid) && wait_until(process_gone, &behind));
	OK(wait_until(session_gone, flags & WIRE_EXEC_PTY ? &pid : &parent));
	job_free(&j);
}

static void test_terminal(void)
{
	struct job j =
		run((struct job){.argv = SH("test -t 0 && test -t 1 && test -t 2 && stty size;"
					    "echo $TERM; test -e /dev/tty && : </dev/tty && "
					    "echo has tty"),
			.msg = {.flags = WIRE_EXEC_PTY, .rows = 33, .cols = 101}});
	struct peer_bytes body;
	struct wire_msg m;

	OK(exited(&j, 0));
	STR_IS(j.out.p, "33 101\r\nxterm\r\nhas tty\r\n");
	job_free(&j);

	j = run((struct job){.argv = ARGV("cat"),
		.input = "one\ntwo",
		.input_len = 7,
		.msg = {.flags = WIRE_EXEC_PTY, .rows = 24, .cols = 80}});
	OK(exited(&j, 0)); /* by ^D, twice: the line was not finished */
	OK(strlen(j.out.p) == 16 && strstr(j.out.p, "one\r\n")); /* echoed, and from cat */
	job_free(&j);

	j = (struct job){
		.argv = SH("trap 'stty size; exit 0' WINCH; echo up; while :; do sleep 0.1; done"),
		.msg = {.flags = WIRE_EXEC_PTY, .rows = 24, .cols = 80}};
	job_start(&peer, &j);
	OK(peer_next(&peer, 10000, &m, &body));
	job_order(&peer, &j, &(struct wire_msg){.type = WIRE_RESIZE, .rows = 50, .cols = 132});
	jobs_finish(&peer, &j, 1);
	OK(exited(&j, 0));
	STR_IS(j.out.p, "50 132\r\n");
	job_free(&j);

	j = (struct job){.argv = SH("echo up; sleep 1000; echo no"),
		.msg = {.flags = WIRE_EXEC_PTY, .rows = 24, .cols = 80}};
	job_start(&peer, &j);
	OK(peer_next(&peer, 10000, &m, &body));
	signal_until_exit(&j, SIGINT);
	OK(j.end.how == WIRE_SIGNALED && j.end.code == SIGINT);
}

static void test_many(void)
{
	enum { MANY = 200 };
	struct job *jobs = calloc(MANY, sizeof(*jobs));
	char script[MANY][64];
	bool good = true;

	for (int i = 0; i < MANY; i++) {
		snprintf(script[i], sizeof(script[i]), "cat; echo %d; exit %d", i, i);
		jobs[i].argv = calloc(4, sizeof(char *));
		((const char **)(uintptr_t)jobs[i].argv)[0] = "/bin/sh";
		((const char **)(uintptr_t)jobs[i].argv)[1] = "-c";
		((const char **)(uintptr_t)jobs[i].argv)[2] = script[i];
		jobs[i].input = "in ";
		jobs[i].input_len = 3;
		job_start(&peer, &jobs[i]); /* all wait for their input: 200 at once */
	}
	jobs_finish(&peer, jobs, MANY);
	for (int i = 0; i < MANY; i++) {
		char want[16];

		snprintf(want, sizeof(want), "in %d\n", i);
		good = good && exited(&jobs[i], (uint32_t)i) && strcmp(jobs[i].out.p, want) == 0;
		job_free(&jobs[i]);
		free((void *)(uintptr_t)jobs[i].argv);
	}
	OK(good);
	free(jobs);
}

static int count_fds(void)
{
	char path[64];
	DIR *d;
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", peer.pid);
	d = opendir(path);
	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

/* Tells the log what is open. Returns false. */
static bool show_fds(void)
{
	char path[64], to[128];
	struct dirent *entry;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", peer.pid);
	d = opendir(path);
	while (d && (entry = readdir(d))) {
		ssize_t n = readlinkat(dirfd(d), entry->d_name, to, sizeof(to));

		printf("# fd %s: %.*s\n", entry->d_name, n > 0 ? (int)n : 0, to);
	}
	if (d)
		closedir(d);
	return false;
}

static bool is_at_rest(const void *arg)
{
	pid_t supervisors[2];

	(void)arg;
	return process_children(peer.pid, supervisors, 2) == 1;
}

/* Pipes of a command are closed a moment after its answer, once nobody has their other ends. */
static bool fds_are(const void *n)
{
	return count_fds() == *(const int *)n;
}

int main(void)
{
	int fds;

	if (tap_needs_root("it runs commands as other users"))
		return 0;
	peer_start(&peer);
	fds = count_fds() + 1; /* and the socket of the supervisor that is kept */
	test_exactness();
	OK(wait_until(is_at_rest, NULL));
	OK(wait_until(fds_are, &fds));
	test_many();
	test_directories();
	test_users();
	test_not_startable();
	test_many_strings();
	test_input();
	test_timeout();
	test_timeout_in_dead_file_system();
	test_background();
	test_capture();
	test_backpressure();
	test_cancel_and_signal();
	test_lost_supervisor(0);
	test_lost_supervisor(WIRE_EXEC_PTY);
	test_terminal();
	test_many();
	OK(wait_until(is_at_rest, NULL));            /* one supervisor is kept */
	OK(wait_until(fds_are, &fds) || show_fds()); /* no fd was left open */
	peer_stop(&peer);
	return tap_done();
}
