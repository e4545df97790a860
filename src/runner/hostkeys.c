/*
 * hostkeys.c - SSH host keys. Every kind that is there is replaced: by the key that came along, or,
 * where none did, by one that ssh-keygen makes. DSA keys only go: nobody takes them any more.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runner/identity.h"
#include "util/auto.h"

#define KEYS "/etc/ssh"
enum { LAST_PRIORITY = 19, LOOKS_MAX = 300, CALM_LOOKS = 3 };

static void path_of(const char *kind, const char *end, char *out, size_t size)
{
	snprintf(out, size, KEYS "/ssh_host_%s_key%s", kind, end);
}

static bool exists(const char *kind)
{
	char path[128];

	path_of(kind, "", path, sizeof(path));
	return access(path, F_OK) == 0;
}

static void remove_key(const char *kind)
{
	char path[128];

	path_of(kind, "", path, sizeof(path));
	unlink(path);
	path_of(kind, ".pub", path, sizeof(path));
	unlink(path);
}

static pid_t make_key(const char *kind, const char *hostname)
{
	pid_t pid = fork();

	if (pid == 0) {
		char path[128], comment[128];
		int null = open("/dev/null", O_RDWR);
		sigset_t none;

		path_of(kind, "", path, sizeof(path));
		snprintf(comment, sizeof(comment), "root@%s", hostname);
		for (int i = 0; i < 3 && null >= 0; i++)
			dup2(null, i);
		signal(SIGCHLD, SIG_DFL);
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		execl("/usr/bin/ssh-keygen", "ssh-keygen", "-q", "-t", kind, "-N", "", "-C",
			comment, "-f", path, (char *)NULL);
		_exit(127);
	}
	return pid;
}

static int write_file(const char *kind, const char *end, const char *text, mode_t mode)
{
	size_t len = strlen(text);
	char path[128];

	path_of(kind, end, path, sizeof(path));
	auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
	if (fd < 0)
		return errno;
	return write(fd, text, len) == (ssize_t)len ? 0 : errno ? errno : EIO;
}

static int put_key(const struct identity_key *k)
{
	int error = write_file(k->kind, "", k->secret, 0600);

	return error ? error : write_file(k->kind, ".pub", k->public, 0644);
}

static const struct identity_key *find_key(const struct identity *id, const char *kind)
{
	for (uint32_t i = 0; i < id->n_keys; i++)
		if (strcmp(id->keys[i].kind, kind) == 0)
			return &id->keys[i];
	return NULL;
}

static char state_of(int pid)
{
	char path[64], text[512] = "", *end;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	end = n > 0 ? strrchr(text, ')') : NULL;
	return end && end[1] ? end[2] : 0;
}

/* In a process of its own: sshd gets its priority back when it has come to rest. Nothing tells that
 * of another process, so it is looked at now and then. */
static void await_rest(int pid, int priority)
{
	static const struct timespec pause = {.tv_nsec = 100 * 1000 * 1000};

	for (int looks = 0, calm = 0; looks < LOOKS_MAX && calm < CALM_LOOKS; looks++) {
		nanosleep(&pause, NULL);
		calm = state_of(pid) == 'S' ? calm + 1 : 0;
	}
	setpriority(PRIO_PROCESS, (id_t)pid, priority);
}

/*
 * sshd has its keys in memory: it starts itself anew. Without hardware help that takes it half a
 * second, for which what the VM was started for should not have to wait.
 */
static void tell_sshd(void)
{
	auto_file FILE *f = fopen("/run/sshd.pid", "re");
	int pid = 0, priority;

	if (!f || fscanf(f, "%d", &pid) != 1 || pid <= 1)
		return;
	priority = getpriority(PRIO_PROCESS, (id_t)pid);
	setpriority(PRIO_PROCESS, (id_t)pid, LAST_PRIORITY);
	if (kill(pid, SIGHUP) == 0 && fork() == 0) {
		await_rest(pid, priority);
		_exit(0);
	}
}

int hostkeys_renew(const struct identity *id)
{
	pid_t makers[ARRAY_LEN(identity_kinds)] = {0};
	bool any = exists("dsa");
	int error = 0;

	remove_key("dsa");
	for (size_t i = 0; i < ARRAY_LEN(makers); i++) {
		const char *kind = identity_kinds[i];
		const struct identity_key *given = find_key(id, kind);

		if (!exists(kind))
			continue;
		any = true;
		remove_key(kind);
		if (!given)
			makers[i] = make_key(kind, id->hostname);
		else if (put_key(given))
			error = EIO;
	}
	for (size_t i = 0; i < ARRAY_LEN(makers); i++) {
		if (makers[i] <= 0)
			continue;
		/* Children end unseen here (SIGCHLD is ignored): the wait lasts until then. */
		while (waitpid(makers[i], NULL, 0) < 0 && errno == EINTR)
			;
		if (!exists(identity_kinds[i]))
			error = EIO;
	}
	if (any)
		tell_sshd();
	return error;
}
