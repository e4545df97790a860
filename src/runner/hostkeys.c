/*
 * hostkeys.c - SSH host keys. Those of the kinds that are made quickly are replaced; an RSA key,
 * which takes seconds without hardware help, is removed: every client of this century does without.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/identity.h"
#include "util/auto.h"

#define KEYS "/etc/ssh"

struct kind {
	const char *name;
	bool quick;
	pid_t maker;
};

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

/* sshd has its keys in memory: it starts itself anew. */
static void tell_sshd(void)
{
	auto_file FILE *f = fopen("/run/sshd.pid", "re");
	int pid = 0;

	if (f && fscanf(f, "%d", &pid) == 1 && pid > 1)
		kill(pid, SIGHUP);
}

int hostkeys_renew(const char *hostname)
{
	struct kind kinds[] = {{.name = "ed25519", .quick = true}, {.name = "ecdsa", .quick = true},
		{.name = "rsa"}, {.name = "dsa"}};
	bool any = false;
	int error = 0;

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		struct kind *k = &kinds[i];

		if (!exists(k->name))
			continue;
		any = true;
		remove_key(k->name);
		if (k->quick)
			k->maker = make_key(k->name, hostname);
	}
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		if (kinds[i].maker <= 0)
			continue;
		/* Children end unseen here (SIGCHLD is ignored): the wait lasts until then. */
		while (waitpid(kinds[i].maker, NULL, 0) < 0 && errno == EINTR)
			;
		if (!exists(kinds[i].name))
			error = EIO;
	}
	if (any)
		tell_sshd();
	return error;
}
