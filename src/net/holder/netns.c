#include "net/holder/netns.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "net/holder/holder.h"
#include "util/auto.h"
#include "util/system/confine.h"
#include "util/thread/thread.h"

/* The capabilities that the holder and its programs need, over what belongs to its user namespace:
 * networks, entering them, and pasta's own way of shutting itself in. */
static const int kept[] = {CAP_NET_ADMIN, CAP_NET_RAW, CAP_NET_BIND_SERVICE, CAP_SYS_ADMIN,
	CAP_SYS_CHROOT, CAP_SETUID, CAP_SETGID, CAP_SETPCAP};

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

/* Root of the child's namespace, which has no other user, is this one of ours. */
static int map_ids(pid_t child, uid_t uid, gid_t gid)
{
	char one[40];

	snprintf(one, sizeof(one), "0 %u 1\n", (unsigned)uid);
	if (write_text(child, "uid_map", one) < 0)
		return -1;
	if (write_text(child, "setgroups", "deny") < 0 && errno != ENOENT)
		return -1;
	snprintf(one, sizeof(one), "0 %u 1\n", (unsigned)gid);
	return write_text(child, "gid_map", one);
}

static pid_t clone_process(unsigned long flags)
{
	return (pid_t)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
}

static int own_root(uid_t id)
{
	return unshare(CLONE_NEWNS) < 0 ? -1 : confine_root(confine_find("network"), NULL, id);
}

/* In the child of root: makes its root directory while it may still make devices there, then its
 * user namespace. Returns the id that it will be outside; 0: there is no such namespace, and it
 * stays root. */
static uid_t leave_root(void)
{
	uid_t id = confine_id();

	own_root(id);
	return setgroups(0, NULL) == 0 && unshare(CLONE_NEWUSER) == 0 ? id : 0;
}

/* Runs in the child, which enters the namespaces. sock: to its parent, which maps the ids. */
static int begin(int sock, bool root, uid_t uid, struct err *e)
{
	uid_t id = root ? leave_root() : uid;
	char mapped = 0;
	ssize_t n = send(sock, &id, sizeof(id), MSG_NOSIGNAL);

	while (n > 0 && (n = recv(sock, &mapped, 1, 0)) < 0 && errno == EINTR)
		n = 1;
	if (n != 1)
		return err_set(e, ERR_UNSUPPORTED, "the kernel allows no user namespace");
	if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return err_sys(e, errno, "user");
	if (!root)
		own_root(0);
	/* A change of user clears both. Whoever has started moat may look into us. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0 ||
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		confine_keep(kept, ARRAY_LEN(kept)) < 0 || confine_calls(true) < 0)
		return err_sys(e, errno, "giving up rights");
	if (recv(sock, &mapped, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
		return err_set(e, ERR_CANCELLED, "the holder's parent has ended");
	return 0;
}

/* Runs in the parent, which stays outside: maps the child's ids. */
static void __attribute__((noreturn)) stay_outside(pid_t child, int sock, gid_t gid)
{
	uid_t id = 0;
	bool root = getuid() == 0;

	close(HOLDER_FD_REQUESTS); /* the daemon must see when the child's is closed */
	if (recv(sock, &id, sizeof(id), 0) == sizeof(id) &&
		((root && id == 0) || map_ids(child, id, root ? (gid_t)id : gid) == 0))
		(void)!send(sock, "m", 1, MSG_NOSIGNAL);
	else
		shutdown(sock, SHUT_RDWR);
	outside_main(child, sock, id);
}

int netns_leave_host(int *ret_outside, struct err *e)
{
	uid_t uid = getuid();
	gid_t gid = getgid();
	bool root = uid == 0;
	int pair[2];
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, errno, "socketpair");
	child = clone_process(root ? CLONE_NEWPID : CLONE_NEWUSER | CLONE_NEWPID);
	if (child < 0)
		return err_sys(e, errno, "the kernel allows no user namespace");
	close(pair[child ? 1 : 0]);
	if (child)
		stay_outside(child, pair[0], gid);
	*ret_outside = pair[1];
	return begin(pair[1], root, uid, e);
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
