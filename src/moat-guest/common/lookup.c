/* lookup.c - user_find: reading the guest's user database. */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "moat-guest/common/users.h"
#include "util/auto.h"

enum { DATABASE_MAX = 8 * 1024 * 1024 };

/* The content of a file, for which *ret_memory must be freed. Empty if the file is missing or odd:
 * then users can be found only by number. */
static struct user_text slurp(const char *path, char **ret_memory)
{
	auto_fd int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct user_text text = {0};
	struct stat st;
	char *memory;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 ||
		st.st_size > DATABASE_MAX)
		return text;
	memory = malloc((size_t)st.st_size);
	if (!memory)
		return text;
	while (text.len < (size_t)st.st_size &&
		(n = read(fd, memory + text.len, (size_t)st.st_size - text.len)) > 0)
		text.len += (size_t)n;
	text.p = *ret_memory = memory;
	return text;
}

static bool is_directory(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int user_find(const char *who, struct user *ret)
{
	auto_free char *passwd_memory = NULL, *group_memory = NULL;
	struct user_text passwd = slurp("/etc/passwd", &passwd_memory);
	struct user_text group = slurp("/etc/group", &group_memory);
	int error = user_in(who, passwd, group, ret);

	if (error)
		return error;
	if (ret->home[0] != '/' || !is_directory(ret->home))
		snprintf(ret->home, sizeof(ret->home), "/");
	return 0;
}
