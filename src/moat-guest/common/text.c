#include "moat-guest/common/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/auto.h"

enum { TEXT_MAX = 64 * 1024 };

char *text_read(const char *path)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *text = malloc(TEXT_MAX + 1);
	ssize_t n = fd < 0 || !text ? -1 : read(fd, text, TEXT_MAX);

	if (n < 0) {
		free(text);
		return NULL;
	}
	text[n] = 0;
	return text;
}

int text_put(const char *path, const char *text, mode_t mode)
{
	int how = O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (mode ? O_CREAT : 0);
	auto_fd int fd = open(path, how, mode);
	size_t len = strlen(text);
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return !mode && (errno == ENOENT || errno == ELOOP) ? 0 : errno;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return mode ? EINVAL : 0;
	n = write(fd, text, len);
	if (n < 0)
		return errno;
	if (n != (ssize_t)len)
		return EIO;
	return st.st_size != n && ftruncate(fd, n) < 0 ? errno : 0;
}
