/*
 * How it works: depmod has written text beside the modules. A line of modules.dep has a module and
 * those it depends on, which are to be loaded from the last to the first. A line of modules.alias
 * has a pattern and the module that serves what fits it.
 */
#include "moat-init/modules.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "util/auto.h"

enum { LINE_MAX_BYTES = 16384, DEPENDENCIES_MAX = 64, NAME_BYTES = 128 };

static FILE *open_index(const char *name)
{
	char path[256];
	struct utsname u;

	uname(&u);
	snprintf(path, sizeof(path), MODULES "/%s/%s", u.release, name);
	return fopen(path, "re");
}

static int insert(const char *relative)
{
	char path[512];
	auto_fd int fd = -1;
	struct utsname u;

	uname(&u);
	snprintf(path, sizeof(path), MODULES "/%s/%s", u.release, relative);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	return syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST ? errno : 0;
}

/* The kernel makes no difference between "-" and "_". */
static bool same_name(const char *a, size_t len, const char *b)
{
	for (size_t i = 0; i < len; i++)
		if (a[i] != b[i] && !(strchr("-_", a[i]) && b[i] && strchr("-_", b[i])))
			return false;
	return !b[len];
}

/* Whether "kernel/net/core/failover.ko" is of that name. */
static bool is_module(const char *path, size_t len, const char *name)
{
	const char *slash = memrchr(path, '/', len);
	size_t at = slash ? (size_t)(slash + 1 - path) : 0;

	return len > at + 3 && memcmp(path + len - 3, ".ko", 3) == 0 &&
	       same_name(path + at, len - at - 3, name);
}

/* ENOENT: there is no such module; it may be in the kernel. */
static int load_module(const char *name)
{
	auto_file FILE *f = open_index("modules.dep");
	auto_free char *line = malloc(LINE_MAX_BYTES);
	char *need[DEPENDENCIES_MAX], *rest;
	size_t n = 0;
	int error = 0;

	while (f && line && fgets(line, LINE_MAX_BYTES, f)) {
		size_t len = strcspn(line, ":");

		if (!line[len] || !is_module(line, len, name))
			continue;
		line[len] = 0;
		rest = line + len + 1;
		need[n++] = line;
		for (char *one; n < DEPENDENCIES_MAX && (one = strsep(&rest, " \n"));)
			if (*one)
				need[n++] = one;
		while (n && !error)
			error = insert(need[--n]);
		return error;
	}
	return ENOENT;
}

static int load_alias(const char *alias)
{
	auto_file FILE *f = open_index("modules.alias");
	auto_free char *line = malloc(LINE_MAX_BYTES);
	int error = ENOENT;

	while (f && line && fgets(line, LINE_MAX_BYTES, f)) {
		char pattern[1024], name[NAME_BYTES];

		if (sscanf(line, "alias %1023s %127s", pattern, name) == 2 &&
			fnmatch(pattern, alias, 0) == 0 && load_module(name) == 0)
			error = 0;
	}
	return error;
}

int module_load(const char *name)
{
	int error = load_module(name);

	return error == ENOENT ? load_alias(name) : error;
}

void modules_for_bus(const char *bus)
{
	char path[300];
	auto_dir DIR *dir = NULL;
	struct dirent *entry;

	snprintf(path, sizeof(path), "/sys/bus/%s/devices", bus);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		char alias[256] = "";
		auto_file FILE *f = NULL;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/sys/bus/%s/devices/%.100s/modalias", bus,
			entry->d_name);
		f = fopen(path, "re");
		if (!f || !fgets(alias, sizeof(alias), f))
			continue;
		alias[strcspn(alias, "\n")] = 0;
		load_alias(alias);
	}
}

int modprobe_main(int argc, char **argv)
{
	return argc < 2 || module_load(argv[argc - 1]) ? 1 : 0;
}
