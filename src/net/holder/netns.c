#include "net/holder/netns.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/holder/holder.h"
#include "util/auto.h"
#include "util/thread/thread.h"

enum { NOBODY = 65534 };

static int write_text(pid_t pid, const char *name, const char *text)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = write(fd, text, strlen(text));
	close(fd);
	return n == (ssize_t)strlen(text) ? 0 : -1;
}

/* Maps root in the child's namespace to our own user. If we may, maps nobody too, so that the
 * holder's programs need not be root even in there. */
static int map_ids(pid_t child, bool *ret_nobody)
{
	char both[80], one[40];

	*ret_nobody = false;
	snprintf(one, sizeof(one), "0 %u 1\n", (unsigned)getuid());
	if (getuid() == 0) {
		snprintf(both, sizeof(both), "%s%d %d 1\n", one, NOBODY, NOBODY);
		if (write_text(child, "uid_map", both) == 0 &&
			write_text(child, "gid_map", both) == 0) {
			*ret_nobody = true;
			return 0;
		}
	}
	if (write_text(child, "uid_map", one) < 0)
		return -1;
	if (write_text(child, "setgroups", "deny") < 0 && errno != ENOENT)
		return -1;
	snprintf(one, sizeof(one), "0 %u 1\n", (unsigned)getgid());
	return write_text(child, "gid_map", one);
}

static pid_t clone_process(unsigned long flags)
{
	return (pid_t)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
}

/* Waits for the child and exits with its status. Closes our end of the socket, as the daemon must
 * see when the child's is closed. */
static void __attribute__((noreturn)) wait_and_exit(pid_t child)
{
	int status = 0;

	close(HOLDER_FD_REQUESTS);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	_exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}

static int wait_for_maps(int fd, bool *ret_nobody, struct err *e)
{
	char said;
	ssize_t n;

	while ((n = read(fd, &said, 1)) < 0 && errno == EINTR)
		;
	close(fd);
	if (n != 1)
		return err_set(e, ERR_UNSUPPORTED, "the kernel allows no user namespace");
	*ret_nobody = said == 'n';
	return 0;
}

int netns_leave_host(bool *ret_nobody, struct err *e)
{
	bool user_ns = true, nobody = false;
	int ready[2];
	pid_t child;

	if (pipe2(ready, O_CLOEXEC) < 0)
		return err_sys(e, errno, "pipe");
	child = clone_process(CLONE_NEWUSER | CLONE_NEWPID);
	if (child < 0 && getuid() == 0) { /* root has all rights without a user namespace */
		user_ns = false;
		child = clone_process(CLONE_NEWPID);
	}
	if (child < 0)
		return err_sys(e, errno, "the kernel allows no user namespace");
	if (child == 0) {
		close(ready[1]);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		return wait_for_maps(ready[0], ret_nobody, e);
	}
	close(ready[0]);
	if (user_ns && map_ids(child, &nobody) < 0)
		close(ready[1]); /* this tells the child that its ids are mapped */
	else if (write(ready[1], nobody || !user_ns ? "n" : "y", 1) < 0)
		close(ready[1]);
	wait_and_exit(child);
}

struct job {
	int netns;
	int (*fn)(void *arg, struct err *e);
	void *arg;
	struct err *e;
	int rc;
};

static int enter(struct job *job)
{
	if (job->netns >= 0)
		return setns(job->netns, CLONE_NEWNET) < 0
			       ? err_sys(job->e, errno, "network namespace")
			       : 0;
	if (unshare(CLONE_NEWNET) < 0)
		return err_sys(job->e, errno, "the kernel allows no network namespace");
	job->netns = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	return job->netns < 0 ? err_sys(job->e, errno, "/proc/thread-self/ns/net") : 0;
}

static void *job_main(void *arg)
{
	struct job *job = arg;

	job->rc = enter(job) < 0 ? -1 : job->fn(job->arg, job->e);
	return NULL;
}

int netns_run(
	int netns, int (*fn)(void *arg, struct err *e), void *arg, int *ret_netns, struct err *e)
{
	struct job job = {.netns = netns, .fn = fn, .arg = arg, .e = e};
	pthread_t thread;

	if (thread_start(&thread, "netns", job_main, &job, e) < 0)
		return -1;
	thread_join(thread);
	if (netns < 0 && job.netns >= 0) {
		if (job.rc < 0)
			close(job.netns);
		else
			*ret_netns = job.netns;
	}
	return job.rc;
}
