#include "driver/caplog.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/str.h"

static int open_new(const char *path)
{
	return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
}

int caplog_open(struct caplog *log, const char *path, struct err *e)
{
	auto_free char *copy = NULL;
	int fd;

	if (str_dup(path, &copy, e) < 0)
		return -1;
	fd = open_new(path);
	if (fd < 0)
		return err_sys(e, errno, "%s", path);
	*log = (struct caplog){.path = take_ptr(&copy), .fd = fd};
	return 0;
}

static void start_over(struct caplog *log)
{
	auto_free char *old = NULL;
	struct err ignored;
	int fd;

	if (str_printf(&old, &ignored, "%s.1", log->path) < 0 || rename(log->path, old) < 0)
		return;
	fd = open_new(log->path);
	if (fd < 0) { /* the log stays full for now, and the next bytes try again */
		rename(old, log->path);
		return;
	}
	close(log->fd);
	log->fd = fd;
	log->size = 0;
}

void caplog_add(struct caplog *log, struct bytes data)
{
	if (log->size + data.len > CAPLOG_MAX)
		start_over(log);
	if (log->fd < 0 || log->size + data.len > CAPLOG_MAX)
		return;
	if (write(log->fd, data.p, data.len) > 0)
		log->size += data.len;
}

void caplog_close(struct caplog *log)
{
	if (log->fd >= 0)
		close(log->fd);
	free(log->path);
	*log = CAPLOG_NONE;
}
