/* scratch.h - a directory for the test, this program as its guard, bounded waiting. Include after
 * tap.h. */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/system/io.h"
#include "util/thread/op.h"

static char scratch[64], self[256]; /* the directory; the path of this program */

__attribute__((unused)) static void scratch_begin(void)
{
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	snprintf(scratch, sizeof(scratch), "/tmp/moat-unit-XXXXXX");
	if (n < 0 || !mkdtemp(scratch))
		abort();
	self[n] = 0;
}

__attribute__((unused)) static void scratch_end(void)
{
	struct err e;

	if (dir_remove(scratch, &e) < 0)
		printf("# %s\n", e.msg);
}

/* A path below the directory; from a ring of static buffers. */
__attribute__((format(printf, 1, 2), unused)) static const char *at(const char *fmt, ...)
{
	static char ring[8][512];
	static unsigned next;
	char *out = ring[next++ % 8];
	int n = snprintf(out, 512, "%s/", scratch);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(out + n, 512 - (size_t)n, fmt, ap);
	va_end(ap);
	return out;
}

__attribute__((unused)) static void put_file(const char *path, const char *text)
{
	auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		abort();
}

__attribute__((unused)) static char *get_file(const char *path)
{
	char *text = NULL;
	struct err e;

	return file_read(path, 64 << 20, &text, NULL, &e) < 0 ? NULL : text;
}

__attribute__((unused)) static int entries_in(const char *path)
{
	auto_dir DIR *d = opendir(path);
	struct dirent *ent;
	int n = 0;

	while (d && (ent = readdir(d)))
		n += strcmp(ent->d_name, ".") != 0 && strcmp(ent->d_name, "..") != 0;
	return d ? n : -1;
}

/* Closes inherited files besides stdio, so that a test can count fds. */
__attribute__((unused)) static void forget_inherited_fds(void)
{
	if (close_range(3, ~0U, 0) < 0)
		abort();
}

/* Polls until the condition holds, at most 30 s; the value is whether it does. */
#define EVENTUALLY(cond)                                                                           \
	({                                                                                         \
		struct op patience_ = op_for_cleanup(30);                                          \
		struct err late_;                                                                  \
		while (!(cond) && op_pause(&patience_, 0.01, &late_) == 0)                         \
			;                                                                          \
		(cond);                                                                            \
	})

static inline double seconds_since(int64_t start_ns)
{
	return (double)(now_ns() - start_ns) / 1e9;
}
