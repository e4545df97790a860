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

/* Reads stdin to its end. Returns how long that is, or -1 after it has said why. */
static ssize_t take_record(char **ret)
{
	const size_t size = SERVICE_RECORD_MAX + 1;
	size_t len = 0;
	ssize_t n = -1;

	*ret = malloc(size);
	while (*ret && len < size && (n = read(STDIN_FILENO, *ret + len, size - len)) > 0)
		len += (size_t)n;
	if (n == 0)
		return (ssize_t)len;
	fputs("the record of the service is too large\n", stderr);
	return -1;
}

static int mounts(void)
{
	auto_free char *record = NULL;
	ssize_t len = take_record(&record);

	return len < 0 || set_up_mounts((struct record){record, (size_t)len}) != 0 ? SERVICE_FAILED
										   : SERVICE_DONE;
}

static int start(void)
{
	auto_free char *record = NULL;
	auto_fd int fd = connect_init();
	char line[64], answer[300] = "";
	ssize_t len = take_record(&record);
	size_t have = 0;

	if (fd < 0 || len < 0)
		return SERVICE_FAILED;
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
	if (strcmp(what, "mounts") == 0)
		return mounts();
	if (strcmp(what, "unpack") == 0)
		return unpack();
	snprintf(question, sizeof(question), "%.20s\n", what);
	return ask(question);
}
