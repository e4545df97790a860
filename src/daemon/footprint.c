#include "daemon/footprint.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/str.h"

enum { DEPTH_MAX = 3 }; /* daemon, guard, QEMU */

static bool is_emulator(int pid)
{
	char path[64], name[64] = "";
	auto_file FILE *f = NULL;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	f = fopen(path, "re");
	return f && fgets(name, sizeof(name), f) && str_starts(name, "qemu-system");
}

static unsigned long long own_mb(int pid)
{
	unsigned long long size, resident = 0, shared = 0;
	char path[64];
	auto_file FILE *f = NULL;

	snprintf(path, sizeof(path), "/proc/%d/statm", pid);
	f = fopen(path, "re");
	if (!f || fscanf(f, "%llu %llu %llu", &size, &resident, &shared) != 3)
		return 0;
	/* Shared pages are a template's. They are there once, and no promise to a VM covers them.
	 */
	return (resident - shared) * (unsigned long long)sysconf(_SC_PAGESIZE) >> 20;
}

static unsigned long long below(int pid, int depth)
{
	unsigned long long sum = is_emulator(pid) ? own_mb(pid) : 0;
	char path[320];
	auto_dir DIR *tasks = NULL;
	struct dirent *task;

	if (depth == DEPTH_MAX)
		return sum;
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
			sum += below(child, depth + 1);
	}
	return sum;
}

unsigned long long footprint_qemu_mb(void)
{
	return below((int)getpid(), 1);
}
