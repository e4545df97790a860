/* fuzz-qmp.c - what QEMU's monitor sends while a caller waits for the answer to command 1. */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "driver/qemu/vm/qmp.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	SIZE_MAX_FED = 60000
}; /* fits into the socket, so that one thread can write first and read then */

static void on_event(void *arg, const char *name, json_t *data)
{
	(void)data;
	if (!name)
		abort();
	++*(unsigned *)arg;
}

static void *caller(void *arg)
{
	struct op op = op_for_cleanup(20);
	auto_json json_t *result = NULL;
	struct err e = {.kind = ERR_NONE};

	if (qmp_call(arg, &op, "query", NULL, -1, &result, &e) < 0 &&
		(e.kind == ERR_NONE || e.kind == ERR_TIMEOUT || result))
		abort();
	return NULL;
}

static void feed(int fd, const uint8_t *data, size_t size)
{
	char c = 0;

	while (c != '\n') /* read until the command has arrived: then its caller waits */
		if (read(fd, &c, 1) < 0 && errno != EINTR)
			abort();
	if (size && send(fd, data, size, 0) != (ssize_t)size)
		abort();
	shutdown(fd, SHUT_WR);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned events = 0;
	struct qmp *q = NULL;
	pthread_t thread;
	int fds[2];
	struct err e;

	if (size > SIZE_MAX_FED)
		return 0;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0 || fd_set_nonblock(fds[0], &e) < 0 ||
		qmp_new(fds[0], on_event, &events, &q, &e) < 0 ||
		pthread_create(&thread, NULL, caller, q))
		abort();
	feed(fds[1], data, size);
	while (qmp_readable(q, &e) == 0)
		;
	qmp_fail(q, &e);
	pthread_join(thread, NULL);
	qmp_free(q);
	close(fds[0]);
	close(fds[1]);
	return 0;
}
