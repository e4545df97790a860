#include "moat-init/ctl.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "moat-init/record.h"
#include "util/auto.h"
#include "wire/service.h"

enum { PIECE = 16384 };

static int connect_init(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	socklen_t len =
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(CTL_SOCKET));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(at.sun_path + 1, CTL_SOCKET, strlen(CTL_SOCKET));
	if (fd >= 0 && connect(fd, (struct sockaddr *)&at, len) == 0)
		return fd;
	fprintf(stderr, "process 1 does not answer: %s\n", strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

static int put(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);

		if (sent < 0)
			return -1;
		p += sent;
		n -= (size_t)sent;
	}
	return 0;
}

/* Sends a question, and writes the answer to stdout. */
static int ask(const char *question)
{
	auto_fd int fd = connect_init();
	char piece[PIECE];
	ssize_t n;

	if (fd < 0 || put(fd, question, strlen(question)) < 0)
		return SERVICE_FAILED;
	while ((n = recv(fd, piece, sizeof(piece), 0)) > 0)
		if (fwrite(piece, 1, (size_t)n, stdout) != (size_t)n || fflush(stdout) != 0)
			return SERVICE_FAILED;
	return SERVICE_DONE;
}

/* The end of stdin, or -1 if it is too long. */
static ssize_t read_record(char *out, size_t size)
{
	size_t len = 0;
	ssize_t n;

	while ((n = read(STDIN_FILENO, out + len, size - len)) > 0)
		if ((len += (size_t)n) == size)
			return -1;
	return n < 0 ? -1 : (ssize_t)len;
}

static int start(void)
{
	auto_free char *record = malloc(SERVICE_RECORD_MAX + 1);
	auto_fd int fd = connect_init();
	char line[64], answer[300] = "";
	ssize_t len = record ? read_record(record, SERVICE_RECORD_MAX + 1) : -1;
	size_t have = 0;

	if (fd < 0)
		return SERVICE_FAILED;
	if (len < 0) {
		fputs("the record of the service is too large\n", stderr);
		return SERVICE_FAILED;
	}
	if (set_up((struct record){record, (size_t)len}) != 0)
		return SERVICE_FAILED;
	snprintf(line, sizeof(line), "start %zd\n", len);
	if (put(fd, line, strlen(line)) < 0 || put(fd, record, (size_t)len) < 0)
		return SERVICE_FAILED;
	for (ssize_t n; have < sizeof(answer) - 1 &&
			(n = recv(fd, answer + have, sizeof(answer) - 1 - have, 0)) > 0;)
		have += (size_t)n;
	answer[have] = 0;
	if (strcmp(answer, "ok\n") == 0)
		return SERVICE_DONE;
	fputs(strncmp(answer, "error ", 6) == 0 ? answer + 6 : "process 1 hung up\n", stderr);
	return SERVICE_CANNOT_RUN;
}

int ctl_main(int argc, char **argv)
{
	const char *what = argc == 2 ? argv[1] : "";
	char question[32];

	if (strcmp(what, "start") == 0)
		return start();
	if (strcmp(what, "unpack") == 0)
		return unpack();
	snprintf(question, sizeof(question), "%.20s\n", what);
	return ask(question);
}
