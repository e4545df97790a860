#include "moat-guest/serve/process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "wire/wire.h"
#include "moat-guest/common/ring.h"
#include "moat-guest/command/supervisor.h"

enum {
	FDS_PER_JOB = 6, /* stdin, both ends of stdout and stderr, the supervisor's socket */
	FDS_BESIDES = 256,
	MEMORY_SHARE = 4, /* captured output may take one part in so many */
	KERNEL_SIGSET_BYTES = 8,
};

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool good = fd >= 0 && write(fd, text, strlen(text)) > 0;

	if (fd >= 0)
		close(fd);
	return good;
}

/*
 * systemd kills what is in the guest agent's cgroup when that service stops or restarts. Which
 * hierarchy it goes by depends on the guest's age.
 */
static void leave_cgroup(void)
{
	static const char *const roots[] = {
		"/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"};
	char path[64], pid[16];

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
		snprintf(path, sizeof(path), "%s/cgroup.procs", roots[i]);
		if (access(path, W_OK) < 0)
			continue;
		snprintf(path, sizeof(path), "%s/moat", roots[i]);
		mkdir(path, 0755);
		snprintf(path, sizeof(path), "%s/moat/cgroup.procs", roots[i]);
		write_text(path, pid);
	}
}

/* A service with PrivateTmp and the like sees other files than everybody else. */
static void leave_mount_namespace(void)
{
	struct stat ours, everybodys;
	int fd;

	if (stat("/proc/self/ns/mnt", &ours) < 0 || stat("/proc/1/ns/mnt", &everybodys) < 0 ||
		(ours.st_ino == everybodys.st_ino && ours.st_dev == everybodys.st_dev))
		return;
	fd = open("/proc/1/ns/mnt", O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		setns(fd, CLONE_NEWNS);
		close(fd);
	}
}

static void raise_fd_limit(void)
{
	rlim_t want = WIRE_CHANNELS_MAX * FDS_PER_JOB + FDS_BESIDES;
	struct rlimit limit;

	supervisor_keep_limits();
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= want)
		return;
	limit.rlim_cur = want;
	if (limit.rlim_max < want)
		limit.rlim_max = want;
	if (setrlimit(RLIMIT_NOFILE, &limit) == 0)
		return;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max; /* without root: as high as is allowed */
	setrlimit(RLIMIT_NOFILE, &limit);
}

static void share_memory(void)
{
	struct sysinfo info;

	if (sysinfo(&info) == 0)
		ring_set_budget((size_t)info.totalram * info.mem_unit / MEMORY_SHARE);
}

/*
 * The program that started the runner may have ignored or blocked signals, and commands would
 * inherit that. This calls the kernel directly, since the C library keeps two signals from its
 * callers. An action of zeros is the default action without flags.
 */
static void default_signals(void)
{
	unsigned long action[4] = {0};
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		syscall(SYS_rt_sigaction, number, action, NULL, (size_t)KERNEL_SIGSET_BYTES);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

void process_prepare(bool own_life)
{
	default_signals();
	umask(022);
	share_memory();
	raise_fd_limit();
	write_text("/proc/self/oom_score_adj", "-1000");
	if (own_life && geteuid() == 0) {
		leave_cgroup();
		leave_mount_namespace();
	}
	if (chdir("/") < 0)
		return;
}
