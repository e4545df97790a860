#include "util/system/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "util/auto.h"
#include "util/system/io.h"
#include "util/str.h"

/* spare: what must stay available to others. piece: how much is taken between two checks. */
static const uint64_t spare = 48 << 20, piece = 16 << 20;
enum { TEXT_MAX = 64 * 1024 };

/* The number after a line's name and separator; 0 if there is no such line. */
static uint64_t value_of(const char *text, const char *name, char separator)
{
	size_t len = strlen(name);

	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, len) == 0 && line[len] == separator)
			return strtoull(line + len + 1, NULL, 10);
	}
	return 0;
}

uint64_t meminfo_bytes(const char *text, const char *name)
{
	return value_of(text, name, ':') * 1024;
}

/* ---- control groups ---- */

/* File names and keys, which differ between versions 1 and 2 of control groups. */
struct group_files {
	const char *limit, *usage, *inactive, *active;
};
static const struct group_files version_1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
					"total_inactive_file", "total_active_file"},
				version_2 = {"memory.max", "memory.current", "inactive_file",
					"active_file"};

static char *read_in(const char *dir, const char *name)
{
	auto_free char *path = NULL, *text = NULL;
	struct err ignored;

	if (str_printf(&path, &ignored, "%s/%s", dir, name) < 0 ||
		file_read(path, TEXT_MAX, &text, NULL, &ignored) < 0)
		return NULL;
	return take_ptr(&text);
}

/* A group without a limit says "max", or a number larger than any memory. */
static void look_at_group(const char *dir, const struct group_files *n, struct memory *m)
{
	auto_free char *limit_text = read_in(dir, n->limit), *usage_text = read_in(dir, n->usage),
		       *stat = read_in(dir, "memory.stat");
	uint64_t limit, usage, files;

	if (!limit_text || !usage_text || limit_text[0] < '0' || limit_text[0] > '9')
		return;
	limit = strtoull(limit_text, NULL, 10);
	usage = strtoull(usage_text, NULL, 10);
	/* The page cache can be dropped. Pages of a tmpfs are not in these two figures. */
	files = value_of(stat, n->inactive, ' ') + value_of(stat, n->active, ' ');
	usage = usage > files ? usage - files : 0;
	if (limit < m->total)
		m->total = limit;
	if (limit < usage)
		m->available = 0;
	else if (limit - usage < m->available)
		m->available = limit - usage;
}

/* Any group above ours may have a limit. In a container the path may be the host's: then only the
 * mounted root exists, which comes last. */
static void look_at_groups(
	const char *root, char *path, const struct group_files *n, struct memory *m)
{
	for (char *end = path + strlen(path); end; end = strrchr(path, '/')) {
		auto_free char *dir = NULL;
		struct err ignored;

		*end = '\0';
		if (str_printf(&dir, &ignored, "%s%s", root, path) < 0)
			return;
		look_at_group(dir, n, m);
	}
}

/* Reads a line of /proc/self/cgroup: "0::/path", "4:memory:/path" or another controller's. */
static void look_at_line(const char *cgroups, char *line, struct memory *m)
{
	char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
	auto_free char *root = NULL;
	struct err ignored;
	bool is_memory;

	if (!path)
		return;
	*path++ = '\0';
	is_memory = strcmp(names + 1, "memory") == 0;
	if ((!is_memory && names[1]) || path[0] != '/')
		return;
	if (str_printf(&root, &ignored, "%s%s", cgroups, is_memory ? "/memory" : "") == 0)
		look_at_groups(root, path, is_memory ? &version_1 : &version_2, m);
}

void memory_measure_in(const char *proc, const char *cgroups, struct memory *ret)
{
	auto_free char *info = read_in(proc, "meminfo"), *groups = read_in(proc, "self/cgroup");
	char *rest = groups, *line;

	*ret = (struct memory){.total = meminfo_bytes(info, "MemTotal"),
		.available = meminfo_bytes(info, "MemAvailable")};
	while (rest && (line = strsep(&rest, "\n")))
		look_at_line(cgroups, line, ret);
}

void memory_measure(struct memory *ret)
{
	memory_measure_in("/proc", "/sys/fs/cgroup", ret);
}

uint64_t memory_kills(void)
{
	auto_free char *text = read_in("/proc", "vmstat");

	return value_of(text, "oom_kill", ' ');
}

void memory_victim(int pid, enum memory_victim when)
{
	auto_free char *ours = read_in("/proc/self", "oom_score_adj");
	int own = ours ? atoi(ours) : 0;
	char path[48] = "/proc/self/oom_score_adj";
	auto_file FILE *f = NULL;

	if (pid)
		snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", pid);
	f = fopen(path, "we");
	/* 1000 ranks a process as if it used all memory. If it may not be set, the kernel decides
	 * by size. */
	if (f)
		fprintf(f, "%d", when == MEMORY_VICTIM_FIRST ? 1000 : own + (1000 - own) / 20);
}

/* ---- reserving ---- */

int memory_check(uint64_t bytes, const char *what, struct err *e)
{
	struct memory m;

	memory_measure(&m);
	if (bytes + spare <= m.available)
		return 0;
	err_set(e, ERR_LIMIT,
		"not enough memory for %s: it takes %llu MB and %llu MB must stay free, "
		"%llu MB are available",
		what, (unsigned long long)bytes >> 20, (unsigned long long)spare >> 20,
		(unsigned long long)m.available >> 20);
	e->sys = ENOMEM;
	return -1;
}

bool memory_is_short(uint64_t bytes)
{
	struct memory m;

	memory_measure(&m);
	return m.available < bytes + 2 * spare;
}

static int missing(int fd, uint64_t size, uint64_t *ret, struct err *e)
{
	struct stat st;
	uint64_t has;

	if (fstat(fd, &st) < 0)
		return err_sys(e, errno, "stat");
	has = (uint64_t)st.st_blocks * 512;
	*ret = has < size ? size - has : 0;
	return 0;
}

int memory_reserve(const struct op *op, int fd, uint64_t size, const char *what, struct err *e)
{
	uint64_t need;

	if (missing(fd, size, &need, e) < 0)
		return -1;
	if (need && memory_check(need, what, e) < 0)
		return -1;
	for (uint64_t at = 0; need && at < size; at += piece) {
		uint64_t n = size - at < piece ? size - at : piece;

		if (op_check(op, e) < 0 || memory_check(need < n ? need : n, what, e) < 0)
			return -1;
		if (fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)n) < 0)
			return err_sys(e, errno, "memory for %s", what);
		if (missing(fd, size, &need, e) < 0)
			return -1;
	}
	return 0;
}

bool memory_backs(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}
