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

static void add_tree(int pid, const char *name, int depth, struct usage *u)
{
	char path[320];
	auto_dir DIR *tasks = NULL;
	struct dirent *task;

	add_one(pid, name, u);
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
			add_tree(child, name, depth + 1, u);
	}
}

void usage_of_tree(int pid, const char *name, struct usage *ret)
{
	*ret = (struct usage){0};
	add_tree(pid, name, 1, ret);
}
