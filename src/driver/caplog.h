/* caplog.h - a log file that a guest can fill without filling the disk: at most two files of
 * CAPLOG_MAX. One thread writes. */
#pragma once

#include "util/buf.h"

enum { CAPLOG_MAX = 8 * 1024 * 1024 };

struct caplog {
	char *path;
	int fd;
	size_t size;
};
#define CAPLOG_NONE ((struct caplog){.fd = -1})

int caplog_open(struct caplog *log, const char *path, struct err *e);
/* When the file is full it becomes PATH.1, and a new one begins. Trouble with the disk is ignored:
 * a log is not worth a VM. */
void caplog_add(struct caplog *log, struct bytes data);
void caplog_close(struct caplog *log);
