/* log.h - the daemon's log: one line an event, control bytes escaped, errno preserved. Thread-safe.
 */
#pragma once

#include "util/err.h"
#include "util/thread/op.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

/* Call it before the first thread starts. fd -1: stderr. */
void log_setup(enum log_level least, int fd);
/* op may be NULL. Only the top of an operation logs; library code returns errors instead. */
PRINTF_LIKE(3, 4) void log_msg(const struct op *op, enum log_level level, const char *fmt, ...);
/* Like log_msg, followed by the error and where it was raised. */
PRINTF_LIKE(4, 5)
void log_err(
	const struct op *op, enum log_level level, const struct err *cause, const char *fmt, ...);
