/* Exactly the processes that carry a stamp are found and ended. */
#include "driver/qemu/stamp.h"

#include "tap.h"
#include "scratch.h"
#include "util/system/proc.h"

/* A harmless process whose command line has these arguments: `sh -c SCRIPT sh -name STAMP`. It
 * waits without a child, which would carry the stamp, too, until it becomes another program. */
static struct proc start(const char *name_option, const char *stamp)
{
	const char *argv[] = {"sh", "-c", "echo >$0; kill -STOP $$", at("up-%s", stamp + 5),
		name_option, stamp, NULL};
	struct proc_req req = {.argv = argv};
	struct proc p = PROC_NONE;
	char *slash;
	struct err e;

	while ((slash = strchr(argv[3], '/')) &&
		(slash = strchr(argv[3] + strlen(scratch) + 1, '/')))
		*slash = '_'; /* one file name */
	if (proc_start(&req, &p, &e) < 0 || !EVENTUALLY(path_exists(argv[3])))
		printf("# %s did not start\n", stamp);
	unlink(argv[3]);
	return p;
}

static bool runs(const struct proc *p)
{
	struct pollfd ended = {.fd = p->pidfd, .events = POLLIN};

	return poll(&ended, 1, 0) == 0;
}

/* Another user's process with our stamp is not ended, and does not stop us either. */
static void test_foreign(const char *id)
{
	struct op op = op_for_cleanup(30);
	unsigned found = 77;
	int status;
	struct err e;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(setuid(65534) < 0 || qemu_kill_stamped(&op, id, &found, &e) < 0 ||
			found != 0);
	OK(waitpid(pid, &status, 0) == pid && status == 0);
}

int main(void)
{
	struct op op = op_for_cleanup(30);
	char id[32], other[40], stamp[64];
	unsigned found = 77;
	struct err e;

	scratch_begin();
	snprintf(id, sizeof(id), "t%dx", (int)getpid()); /* no sandbox has such an id */
	snprintf(stamp, sizeof(stamp), "moat-%s/vm", id);
	auto_proc struct proc one = start("-name", stamp);
	snprintf(stamp, sizeof(stamp), "moat-%s/second-vm", id);
	auto_proc struct proc two = start("-name", stamp);
	snprintf(stamp, sizeof(stamp), "moat-%sy/vm", id); /* another id with the same beginning */
	auto_proc struct proc longer = start("-name", stamp);
	snprintf(stamp, sizeof(stamp), "moat-z%s/vm", id);
	auto_proc struct proc different = start("-name", stamp);
	snprintf(stamp, sizeof(stamp), "moat-%s/vm",
		id); /* the stamp is not the argument of -name */
	auto_proc struct proc mention = start("-title", stamp);

	OK(runs(&one) && runs(&two) && runs(&longer) && runs(&different) && runs(&mention));
	snprintf(other, sizeof(other), "%s-none", id);
	OK(qemu_kill_stamped(&op, other, &found, &e) == 0 && found == 0);
	OK(runs(&one) && runs(&two));
	if (getuid() == 0)
		test_foreign(id);
	OK(qemu_kill_stamped(&op, id, &found, &e) == 0 && found == 2);
	OK(!runs(&one) && !runs(&two)); /* they have ended when it returns */
	OK(runs(&longer) && runs(&different) && runs(&mention));
	OK(qemu_kill_stamped(&op, id, &found, &e) == 0 && found == 0);
	scratch_end();
	return tap_done();
}
