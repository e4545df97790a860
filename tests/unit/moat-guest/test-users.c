/* Users that are added and changed while the runner runs. As root, in a mount namespace of its own
 * with a copy of /etc. */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner-peer.h"
#include "tap.h"

static struct peer peer;

static int shell(const char *script)
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		execl("/bin/sh", "sh", "-ec", script, (char *)NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	return status;
}

static bool own_etc(const char *dir)
{
	char script[300];

	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return false;
	snprintf(script, sizeof(script), "cp -a /etc %s/etc && mount --bind %s/etc /etc", dir, dir);
	return shell(script) == 0;
}

static bool is(const char *user, const char *want)
{
	struct job j = {.argv = SH("id -u; id -G; echo $HOME"), .user = user};
	bool good;

	job_run(&peer, &j);
	good = j.end.how == WIRE_EXITED && strcmp(j.out.p, want) == 0;
	if (!good)
		printf("# how %d: %s\n", j.end.how, j.out.p);
	job_free(&j);
	return good;
}

static bool is_nobody(const char *user)
{
	struct job j = {.argv = ARGV("id"), .user = user};
	bool good;

	job_run(&peer, &j);
	good = j.end.how == WIRE_NO_USER && j.end.code == ENOENT;
	job_free(&j);
	return good;
}

static void test_changes(void)
{
	OK(is_nobody("eve"));
	OK(shell("echo eve:x:4001:4001::/nope:/bin/sh >>/etc/passwd") == 0);
	OK(is("eve", "4001\n4001\n/\n"));
	/* changed in place, of the same size, twice in a row */
	OK(shell("sed s/4001/4002/g /etc/passwd >/etc/p && cat /etc/p >/etc/passwd") == 0);
	OK(is("eve", "4002\n4002\n/\n"));
	OK(shell("sed s/4002/4003/g /etc/passwd >/etc/p && cat /etc/p >/etc/passwd") == 0);
	OK(is("eve", "4003\n4003\n/\n"));
	OK(shell("sed s:/nope:/etc:g /etc/passwd >/etc/p && cat /etc/p >/etc/passwd") == 0);
	OK(is("eve", "4003\n4003\n/etc\n"));
	OK(is("eve", "4003\n4003\n/etc\n"));
	OK(shell("sed s/4003/4004/g /etc/passwd >/etc/p && cat /etc/p >/etc/passwd") == 0);
	OK(is("eve", "4004\n4004\n/etc\n"));
	OK(is("eve", "4004\n4004\n/etc\n"));
	/* replaced, as useradd and usermod do; one name is not taken for another */
	OK(shell("echo gang:x:5000:eve >/etc/g && cat /etc/group >>/etc/g && mv /etc/g "
		 "/etc/group") == 0);
	OK(is("eve", "4004\n4004 5000\n/etc\n"));
	OK(is("root", "0\n0\n/root\n"));
	OK(is("eve", "4004\n4004 5000\n/etc\n"));
	/* one supervisor serves several users in turn */
	OK(is("root", "0\n0\n/root\n"));
	OK(is("eve", "4004\n4004 5000\n/etc\n"));
	OK(is("4003", "4003\n65534\n/\n"));
	OK(is("root", "0\n0\n/root\n"));
	OK(shell("mv /etc/passwd /etc/old && grep -v ^eve: /etc/old >/etc/passwd") == 0);
	OK(is_nobody("eve"));
}

int main(void)
{
	char dir[] = "/tmp/runner-users-XXXXXX", script[100];

	if (tap_needs_root("it replaces /etc, in a mount namespace"))
		return 0;
	if (!mkdtemp(dir) || !own_etc(dir))
		abort();
	peer_start(&peer);
	test_changes();
	peer_stop(&peer);
	snprintf(script, sizeof(script), "umount -l /etc; rm -rf %s", dir);
	shell(script);
	return tap_done();
}
