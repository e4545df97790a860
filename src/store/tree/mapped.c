/*
 * How it works: a child makes the user namespace, and waits until we have written its ids. Only we
 * can: the ids are beyond those that any file gives to root. The child is then root in there, and
 * nobody to the files of the machine.
 */
#include "store/tree/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/auto.h"

/* Behind those that confined processes have (util/system/confine.h), whose highest process number
 * is 2^22. */
enum { IDS_FIRST = 0x70000000 + (1 << 22), IDS = 65536 };

static int show(const char *dir, const char *name, struct err *e)
{
	char at[64];

	snprintf(at, sizeof(at), MAPPED_PLACE "/%s", name);
	if (chown(dir, IDS_FIRST, IDS_FIRST) < 0)
		return err_sys(e, errno, "%s", dir);
	if (mkdir(at, 0700) < 0 || mount(dir, at, NULL, MS_BIND, NULL) < 0)
		return err_sys(e, errno, "mount %s", at);
	return 0;
}

static int make_mounts(const char *work, const char *storage, struct err *e)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("moat", MAPPED_PLACE, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=64k") < 0)
		return err_sys(e, errno, "this machine does not let root mount anything");
	return show(work, "work", e) < 0 || show(storage, "storage", e) < 0 ? -1 : 0;
}

static int write_map(pid_t pid, const char *name, struct err *e)
{
	char path[64], map[64];
	auto_fd int fd = -1;
	int n = snprintf(map, sizeof(map), "0 %d %d\n", IDS_FIRST, IDS);

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, map, (size_t)n) != n)
		return err_sys(e, errno, "this machine's root has no ids from %d on", IDS_FIRST);
	return 0;
}

static void end_with_parent(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == 1)
		_exit(126);
}

/* Ends as a child has ended. */
static void end_like(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	_exit(126);
}

/* Process 1 of the pid namespace: when it ends, all of them do. */
static void run(char *const *argv)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		fail("mount /proc");
	execvp(argv[0], argv);
	fail(argv[0]);
}

/* told: readable once the ids are written. */
static void become_root(int ready, int told, char *const *argv)
{
	pid_t pid;
	char byte;

	end_with_parent();
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC) < 0)
		fail("user namespaces do not work here");
	if (write(ready, "", 1) != 1 || read(told, &byte, 1) != 1)
		_exit(126); /* our parent has failed, and says why */
	if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		fail("become root of the namespace");
	end_with_parent(); /* changing the user has cleared it */
	pid = fork();
	if (pid < 0)
		fail("fork");
	if (pid == 0)
		run(argv);
	end_like(pid);
}

int mapped_run(const char *work, const char *storage, char *const *argv, struct err *e)
{
	int ready[2], told[2];
	pid_t pid;
	char byte;

	if (make_mounts(work, storage, e) < 0)
		return -1;
	if (pipe2(ready, O_CLOEXEC) < 0 || pipe2(told, O_CLOEXEC) < 0)
		return err_sys(e, errno, "pipe");
	pid = fork();
	if (pid < 0)
		return err_sys(e, errno, "fork");
	if (pid == 0) {
		close(ready[0]);
		close(told[1]);
		become_root(ready[1], told[0], argv);
	}
	close(ready[1]);
	close(told[0]);
	if (read(ready[0], &byte, 1) == 1) {
		if (write_map(pid, "gid_map", e) < 0 || write_map(pid, "uid_map", e) < 0)
			return -1; /* closing the pipe ends the child */
		if (write(told[1], "", 1) != 1)
			return err_sys(e, errno, "pipe");
	}
	end_like(pid);
	return -1;
}
