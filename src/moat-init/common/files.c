#include "moat-init/common/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/auto.h"

static int console = -1;

void say_open(void)
{
	console = open("/dev/console", O_WRONLY | O_NOCTTY | O_CLOEXEC);
}

void say(const char *fmt, ...)
{
	char line[512] = "moat-init: ";
	size_t n = strlen(line);
	va_list args;

	va_start(args, fmt);
	vsnprintf(line + n, sizeof(line) - n - 1, fmt, args);
	va_end(args);
	memcpy(line + strlen(line), "\n", 2);
	if (console >= 0 && write(console, line, strlen(line)) < 0)
		return;
}

int put_text(const char *path, const char *text)
{
	auto_fd int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 || write(fd, text, strlen(text)) < 0 ? errno : 0;
}

int make_dirs(const char *path)
{
	char dir[4096];

	if (snprintf(dir, sizeof(dir), "%s", path) >= (int)sizeof(dir))
		return ENAMETOOLONG;
	for (char *slash = strchr(dir + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		if (mkdir(dir, 0755) < 0 && errno != EEXIST)
			return errno;
		*slash = '/';
	}
	return mkdir(dir, 0755) < 0 && errno != EEXIST ? errno : 0;
}
