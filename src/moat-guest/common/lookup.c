/*
 * lookup.c - user_find: reading the guest's user database.
 *
 * The last user found is remembered: most operations of a conversation are for the same one. It
 * counts while the two files are the same that were read. They are kept open, and what fstat(2)
 * says of them changes when they are written to, replaced or renamed. Two things it would not show,
 * and there the files are read again: a change within the same tick of the clock as the one before,
 * so one that is recent is not trusted; a mount over them, so nothing is trusted for long.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runner/channel.h"
#include "runner/users.h"
#include "util/auto.h"

enum {
	DATABASE_MAX = 8 * 1024 * 1024,
	TRUST_MS = 2000,
	RECENT_S = 2,
};

struct database {
	const char *path;
	int fd; /* -1: none, and nothing is remembered */
	struct stat seen;
};

static struct database passwd = {.path = "/etc/passwd", .fd = -1};
static struct database group = {.path = "/etc/group", .fd = -1};

static struct {
	char who[64];
	struct user user;
	uint64_t until; /* clock_ms(); 0: nothing */
} last;

/* Empty if the file is missing or odd: then only numbers can be found. */
static struct user_text slurp(struct database *db, char **ret_memory)
{
	struct user_text text = {0};
	char *memory;
	ssize_t n;

	if (db->fd >= 0)
		close(db->fd);
	db->fd = open(db->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (db->fd < 0)
		return text;
	if (fstat(db->fd, &db->seen) < 0 || !S_ISREG(db->seen.st_mode) || db->seen.st_size <= 0 ||
		db->seen.st_size > DATABASE_MAX) {
		close(take_fd(&db->fd));
		return text;
	}
	memory = malloc((size_t)db->seen.st_size);
	if (!memory)
		return text;
	while (text.len < (size_t)db->seen.st_size &&
		(n = read(db->fd, memory + text.len, (size_t)db->seen.st_size - text.len)) > 0)
		text.len += (size_t)n;
	text.p = *ret_memory = memory;
	return text;
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool is_unchanged(const struct database *db)
{
	const struct stat *seen = &db->seen;
	struct stat now;

	return db->fd >= 0 && fstat(db->fd, &now) == 0 && now.st_size == seen->st_size &&
	       now.st_nlink == seen->st_nlink && same_time(&now.st_mtim, &seen->st_mtim) &&
	       same_time(&now.st_ctim, &seen->st_ctim);
}

static bool is_settled(const struct database *db)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return db->fd >= 0 && db->seen.st_ctim.tv_sec + RECENT_S < now.tv_sec;
}

static bool is_directory(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static void remember(const char *who, const struct user *u)
{
	if (strlen(who) >= sizeof(last.who) || !is_settled(&passwd) || !is_settled(&group))
		return;
	snprintf(last.who, sizeof(last.who), "%s", who);
	last.user = *u;
	last.until = clock_ms() + TRUST_MS;
}

int user_find(const char *who, struct user *ret)
{
	auto_free char *passwd_memory = NULL, *group_memory = NULL;
	struct user_text passwd_text, group_text;
	int error;

	if (last.until && strcmp(last.who, who) == 0 && clock_ms() < last.until &&
		is_unchanged(&passwd) && is_unchanged(&group)) {
		*ret = last.user;
		return 0;
	}
	last.until = 0;
	passwd_text = slurp(&passwd, &passwd_memory);
	group_text = slurp(&group, &group_memory);
	error = user_in(who, passwd_text, group_text, ret);
	if (error)
		return error;
	if (ret->home[0] != '/' || !is_directory(ret->home))
		snprintf(ret->home, sizeof(ret->home), "/"); /* it may be made at any time */
	else
		remember(who, ret);
	return 0;
}
