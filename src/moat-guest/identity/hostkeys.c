/*
 * hostkeys.c - SSH host keys. A key of each kind that the guest has is replaced: by the one that
 * the host has sent, or else by one that ssh-keygen makes. DSA keys are only removed: no client
 * accepts them any more.
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "moat-guest/common/job.h"
#include "moat-guest/identity/identity.h"
#include "moat-guest/common/text.h"
#include "util/auto.h"

#define KEYS "/etc/ssh"
enum { LAST_PRIORITY = 19, LOOKS_MAX = 300, CALM_LOOKS = 3, LOOK_MS = 100 };

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

static int put_file(const char *kind, const char *end, const char *text, mode_t mode)
{
	char path[128];

	path_of(kind, end, path, sizeof(path));
	return text_put(path, text, mode);
}

static int put_both(const struct identity_key *k)
{
	int error = put_file(k->kind, "", k->secret, 0600);

	return error ? error : put_file(k->kind, ".pub", k->public, 0644);
}

static int put_key(const struct identity_key *k)
{
	if (put_both(k) == 0)
		return 0;
	remove_key(k->kind); /* there may be links or directories in its place */
	return put_both(k);
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

/* sshd gets its priority back when it is idle. The kernel does not tell when another process is, so
 * the runner looks now and then. */
void hostkeys_look(struct runner *r)
{
	struct sshd_rest *s = &r->sshd;

	s->calm = state_of(s->pid) == 'S' ? s->calm + 1 : 0;
	s->look_at = clock_ms() + LOOK_MS;
	if (++s->looks < LOOKS_MAX && s->calm < CALM_LOOKS)
		return;
	setpriority(PRIO_PROCESS, (id_t)s->pid, s->priority);
	s->look_at = 0;
}

/*
 * sshd has its keys in memory, so it must start itself anew. Under emulation that takes half a
 * second of the processor. Commands should not have to wait for that: sshd gets the lowest
 * priority.
 */
static void tell_sshd(struct runner *r)
{
	auto_free char *text = text_read("/run/sshd.pid");
	int pid = text ? atoi(text) : 0, priority;

	if (pid <= 1)
		return;
	/* It may still have the lowest priority from the last time. */
	priority = r->sshd.look_at && r->sshd.pid == pid ? r->sshd.priority
							 : getpriority(PRIO_PROCESS, (id_t)pid);
	setpriority(PRIO_PROCESS, (id_t)pid, LAST_PRIORITY);
	if (kill(pid, SIGHUP) == 0)
		r->sshd = (struct sshd_rest){
			.look_at = clock_ms() + LOOK_MS, .pid = pid, .priority = priority};
}

int hostkeys_renew(struct runner *r, const struct identity *id)
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
		if (given) {
			error = put_key(given) ? EIO : error;
		} else {
			remove_key(kind);
			makers[i] = make_key(kind, id->hostname);
		}
	}
	for (size_t i = 0; i < ARRAY_LEN(makers); i++) {
		if (makers[i] <= 0)
			continue;
		/* SIGCHLD is ignored, so the wait lasts until the child has ended, and then fails.
		 */
		while (waitpid(makers[i], NULL, 0) < 0 && errno == EINTR)
			;
		if (!exists(identity_kinds[i]))
			error = EIO;
	}
	if (any)
		tell_sshd(r);
	return error;
}
