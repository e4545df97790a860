#include "wire/tree.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/auto.h"

/* Fields of /proc/PID/stat. They follow the name, which may hold spaces and parentheses. */
struct process {
	pid_t pid, parent, session;
};

static bool read_process(const char *number, struct process *ret)
{
	char path[300], line[512], *after;
	auto_file FILE *f = NULL;
	int parent, group, session;

	snprintf(path, sizeof(path), "/proc/%s/stat", number);
	f = fopen(path, "re");
	if (!f || !fgets(line, sizeof(line), f))
		return false;
	after = strrchr(line, ')');
	if (!after || sscanf(after + 1, " %*c %d %d %d", &parent, &group, &session) != 3)
		return false;
	*ret = (struct process){atoi(number), parent, session};
	return true;
}

static void each_process(void (*call)(const struct process *p, void *arg), void *arg)
{
	auto_dir DIR *dir = opendir("/proc");
	struct process p;
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
			read_process(entry->d_name, &p))
			call(&p, arg);
}

/* The process groups of our descendants have no other members. A signal to a whole group also
 * reaches a process that is being forked. */
static void kill_with_group(pid_t pid, pid_t *last)
{
	pid_t group = getpgid(pid);

	if (group > 1 && group != getpgrp() && group != *last)
		kill(-group, SIGKILL);
	*last = group;
	kill(pid, SIGKILL);
}

struct children {
	pid_t parent, last;
};

static void kill_if_child(const struct process *p, void *arg)
{
	struct children *c = arg;

	if (p->parent == c->parent)
		kill_with_group(p->pid, &c->last);
}

void tree_kill_children(pid_t parent)
{
	struct children c = {.parent = parent};
	char path[64];
	auto_file FILE *f = NULL;
	int pid;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent, (int)parent);
	f = fopen(path, "re");
	if (!f) {
		each_process(kill_if_child, &c); /* this kernel has no CONFIG_PROC_CHILDREN */
		return;
	}
	while (fscanf(f, "%d", &pid) == 1)
		kill_with_group(pid, &c.last);
}

int tree_end(pid_t command)
{
	int status, ended = SIGKILL;
	pid_t pid;

	if (command > 0) {
		kill(-command, SIGKILL);
		kill(command, SIGKILL);
	}
	for (;;) {
		tree_kill_children(getpid());
		/* Orphans of the processes that end here become our children: the next round kills
		 * them. */
		for (int flags = __WALL; (pid = waitpid(-1, &status, flags)) > 0;
			flags = __WALL | WNOHANG)
			if (pid == command)
				ended = status;
		if (pid < 0 && errno == ECHILD)
			return ended;
	}
}

struct session {
	pid_t id, last;
	pid_t *found; /* all that were killed so far */
	size_t n;
	bool more; /* this look has found others */
};

static bool was_found(const struct session *s, pid_t pid)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->found[i] == pid)
			return true;
	return false;
}

static void kill_if_in_session(const struct process *p, void *arg)
{
	struct session *s = arg;
	pid_t *found;

	if (p->session != s->id)
		return;
	kill_with_group(p->pid, &s->last);
	if (was_found(s, p->pid))
		return;
	found = reallocarray(s->found, s->n + 1, sizeof(*found));
	if (!found)
		return;
	s->found = found;
	s->found[s->n++] = p->pid;
	s->more = true;
}

void tree_kill_session(pid_t session)
{
	struct session s = {.id = session};

	if (session <= 1)
		return;
	kill(-session, SIGKILL);
	/* A process can be forked behind a look at /proc, by one that is only killed after it. So
	 * we look until there is nobody new. */
	do {
		s.more = false;
		s.last = 0;
		each_process(kill_if_in_session, &s);
	} while (s.more);
	free(s.found);
}
