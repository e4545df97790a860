#include "driver/usage.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/str.h"

enum { DEPTH_MAX = 4 }; /* daemon, guard, process 1 of a namespace, program */

static FILE *open_of(int pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return fopen(path, "re");
}

/* Reads "42 (its name) S 1 ...", whose name may have anything in it. */
static void add_time(FILE *f, struct usage *u)
{
	unsigned long long user, kernel;
	char line[1024], *at;

	if (!fgets(line, sizeof(line), f) || !(at = strrchr(line, ')')) ||
		sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
			&kernel) != 2)
		return;
	u->cpu_us += (user + kernel) * 1000000 / (unsigned long long)sysconf(_SC_CLK_TCK);
}

static void add_one(int pid, const char *name, struct usage *u)
{
	auto_file FILE *comm = open_of(pid, "comm"), *stat = open_of(pid, "stat"),
		       *statm = open_of(pid, "statm");
	unsigned long long size, resident, shared, page = (unsigned long long)sysconf(_SC_PAGESIZE);
	char theirs[64];

	if (!comm || !stat || !statm || !fgets(theirs, sizeof(theirs), comm) ||
		!str_starts(theirs, name))
		return;
	add_time(stat, u);
	if (fscanf(statm, "%llu %llu %llu", &size, &resident, &shared) != 3)
		return;
	u->resident += resident * page;
	u->unshared += (resident - shared) * page;
}

/* Calls visit for a process and all below it. */
static void walk_tree(int pid, int depth, void (*visit)(void *arg, int pid), void *arg)
{
	char path[320];
	auto_dir DIR *tasks = NULL;
	struct dirent *task;

	visit(arg, pid);
	if (depth == DEPTH_MAX)
		return;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = opendir(path);
	while (tasks && (task = readdir(tasks))) {
		auto_file FILE *f = NULL;
		int child;

		if (task->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%s/children", pid, task->d_name);
		f = fopen(path, "re");
		while (f && fscanf(f, "%d", &child) == 1)
			walk_tree(child, depth + 1, visit, arg);
	}
}

struct adding {
	const char *name;
	struct usage *to;
};

static void visit_usage(void *arg, int pid)
{
	struct adding *a = arg;

	add_one(pid, a->name, a->to);
}

void usage_of_tree(int pid, const char *name, struct usage *ret)
{
	struct adding a = {name, ret};

	*ret = (struct usage){0};
	walk_tree(pid, 1, visit_usage, &a);
}

static bool thread_runs(int pid, const char *thread)
{
	auto_file FILE *f = NULL;
	char path[320], line[1024], *at;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/stat", pid, thread);
	f = fopen(path, "re");
	return f && fgets(line, sizeof(line), f) && (at = strrchr(line, ')')) && at[1] == ' ' &&
	       (at[2] == 'R' || at[2] == 'D');
}

static void visit_threads(void *arg, int pid)
{
	bool *runs = arg;
	char path[64];
	auto_dir DIR *tasks = NULL;
	struct dirent *task;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = opendir(path);
	while (!*runs && tasks && (task = readdir(tasks)))
		*runs = task->d_name[0] != '.' && thread_runs(pid, task->d_name);
}

bool usage_tree_runs(int pid)
{
	bool runs = false;

	walk_tree(pid, 1, visit_threads, &runs);
	return runs;
}
