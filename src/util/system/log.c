#include "util/system/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "util/str.h"

static enum log_level least_level = LOG_INFO;
static int log_fd = STDERR_FILENO;
static const char *const level_names[] = {"debug", "info", "warn", "error"};

void log_setup(enum log_level least, int fd)
{
	least_level = least;
	log_fd = fd < 0 ? STDERR_FILENO : fd;
}

/* One write(2) for each line, so that lines of several threads do not mix. */
static void write_line(const struct op *op, enum log_level level, const char *text)
{
	char safe[3072], line[3200];
	struct timespec ts;
	struct tm tm;
	int n;

	str_escape(text, strlen(text), safe, sizeof(safe));
	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	n = snprintf(line, sizeof(line), "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ %s %s%s%s\n",
		tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
		ts.tv_nsec / 1000000, level_names[level], op ? op->id : "", op ? ": " : "", safe);
	if (n > 0 && write(log_fd, line, (size_t)n) < 0)
		return; /* ignored: a full disk must not stop the daemon */
}

void log_msg(const struct op *op, enum log_level level, const char *fmt, ...)
{
	int saved = errno;
	char text[2048];
	va_list ap;

	if (level < least_level)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	write_line(op, level, text);
	errno = saved;
}

void log_err(
	const struct op *op, enum log_level level, const struct err *cause, const char *fmt, ...)
{
	int saved = errno;
	char text[1024], full[2560];
	va_list ap;

	if (level < least_level)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	snprintf(full, sizeof(full), "%s: %s (%s, %s:%d)", text, cause->msg,
		err_kind_name(cause->kind), cause->file ? cause->file : "?", cause->line);
	write_line(op, level, full);
	errno = saved;
}
