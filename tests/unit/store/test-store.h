/* test-store.h - a store in a directory of its own, with recipes written by the test. */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/store.h"
#include "tap.h"
#include "util/auto.h"
#include "util/system/guard.h"
#include "util/system/io.h"
#include "util/system/proc.h"
#include "util/str.h"

static char home[256], self[256]; /* the test's directory and its own program */

/* Makes the test's directory. This program is also the guard of its children, so call this
 * first. */
__attribute__((unused)) static void home_begin(int argc, char **argv)
{
	ssize_t n;

	if (argc > 1 && strcmp(argv[1], "guard") == 0)
		exit(guard_main(argc - 1, argv + 1));
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n < 0)
		abort();
	self[n] = 0;
	umask(077);
	if (argc > 2) { /* we are a child of the test, in the test's home */
		snprintf(home, sizeof(home), "%s", argv[2]);
		return;
	}
	snprintf(home, sizeof(home), "/tmp/moat-test-XXXXXX");
	if (!mkdtemp(home))
		abort();
}

__attribute__((unused)) static void home_end(void)
{
	struct err e;

	if (dir_remove(home, &e) < 0)
		printf("# %s\n", e.msg);
}

/* A path below home; from a ring of static buffers. */
__attribute__((format(printf, 1, 2), unused)) static const char *at(const char *fmt, ...)
{
	static char ring[8][512];
	static unsigned next;
	char *out = ring[next++ % 8];
	size_t n = (size_t)snprintf(out, 512, "%s/", home);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(out + n, 512 - n, fmt, ap);
	va_end(ap);
	return out;
}

__attribute__((unused)) static struct store *open_store(void)
{
	struct store_config cfg = {.helper_path = self};
	char data[300], cache[300], recipes[300];
	struct store *st = NULL;
	struct err e;

	snprintf(data, sizeof(data), "%s/data", home);
	snprintf(cache, sizeof(cache), "%s/cache", home);
	snprintf(recipes, sizeof(recipes), "%s/recipes", home);
	cfg.data_dir = data;
	cfg.cache_dir = cache;
	cfg.recipe_dir = recipes;
	if (store_open(&cfg, &st, &e) < 0) {
		printf("Bail out! %s\n", e.msg);
		exit(1);
	}
	return st;
}

__attribute__((unused)) static void write_file(const char *path, const char *text)
{
	struct err e;

	if (file_write_atomic(path, text, strlen(text), 0600, &e) < 0) {
		printf("Bail out! %s\n", e.msg);
		exit(1);
	}
}

/* A recipe with this body; $1 is OUT, $2 WORK. */
__attribute__((unused)) static void write_recipe(const char *name, const char *body)
{
	char text[4096];
	struct err e;

	dir_make(at("recipes"), 0700, &e);
	snprintf(text, sizeof(text), "#!/bin/sh\nset -e\n%s\n", body);
	write_file(at("recipes/%s.sh", name), text);
}

/* Recipe lines that make a good image of a word. */
#define MAKE_IMAGE(word)                                                                           \
	"echo kernel of " word " >$1/vmlinux\n"                                                    \
	"echo '{\"format\":1,\"arch\":\"x86_64\",\"kernel\":\"vmlinux\",\"user\":\"user\"}' "      \
	">$1/manifest.json\n"

__attribute__((unused)) static struct op plain_op(double timeout_s)
{
	return op_for_cleanup(timeout_s); /* not cancellable, nothing to release */
}

/* Counts the entries of a directory that begin with prefix. */
__attribute__((unused)) static int count_entries(const char *dir, const char *prefix)
{
	auto_dir DIR *d = opendir(dir);
	struct dirent *ent;
	int n = 0;

	while (d && (ent = readdir(d)))
		n += ent->d_name[0] != '.' && str_starts(ent->d_name, prefix);
	return n;
}

/* Whether no trace of a build is left. */
__attribute__((unused)) static bool store_is_clean(void)
{
	return count_entries(at("data/images"), "tmp-") == 0 &&
	       count_entries(at("data/images"), "dead-") == 0 &&
	       count_entries(at("data/images/busy"), "") == 0;
}

/* Starts this program again as `self VERB HOME ARG`. */
__attribute__((unused)) static pid_t start_self(const char *verb, const char *arg)
{
	pid_t pid = fork();

	if (pid == 0) {
		execl(self, self, verb, home, arg, (char *)NULL);
		_exit(127);
	}
	return pid;
}

__attribute__((unused)) static int end_of(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Waits until a file is there (or is not), at most 30 s. */
__attribute__((unused)) static bool wait_for(const char *path, bool there)
{
	struct op op = plain_op(30);
	struct err e;

	while (path_exists(path) != there)
		if (op_pause(&op, 0.02, &e) < 0)
			return false;
	return true;
}
