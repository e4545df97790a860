/* moat-guest - runs commands and moves files inside a guest, on behalf of the daemon outside. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runner/channel.h"
#include "runner/settle.h"
#include "runner/supervisor.h"

static int usage(void)
{
	fputs("usage: moat-guest serve NAME|PATH|- [--daemon]\n"
	      "       moat-guest version\n"
	      "NAME is a virtio-serial port, PATH a device, - stdin and stdout.\n",
		stderr);
	return 2;
}

/* A command must never inherit the line, nor find 0 to 2 closed. */
static void blank_stdio(bool with_stderr)
{
	int fd = open("/dev/null", O_RDWR);

	for (int i = 0; fd >= 0 && i < (with_stderr ? 3 : 2); i++)
		dup2(fd, i);
	if (fd > 2)
		close(fd);
}

/* The parent leaves with the child's pid on stdout. */
static void go_to_background(void)
{
	pid_t pid = fork();

	if (pid < 0) {
		perror("moat-guest: fork");
		exit(1);
	}
	if (pid > 0) {
		printf("%d\n", (int)pid);
		exit(fflush(stdout) == 0 ? 0 : 1);
	}
	setsid();
}

static int serve(const char *where, bool daemon)
{
	struct line line;
	int error = line_open(&line, where);

	if (!error && daemon)
		go_to_background();
	if (!error) {
		settle(line.is_port);
		blank_stdio(daemon);
		error = runner_serve(&line);
	}
	if (!error)
		return 0;
	fprintf(stderr, "moat-guest: %s: %s%s\n", where, strerror(error),
		error == EBUSY ? " (is another moat-guest serving it?)" : "");
	return 1;
}

/* 0 to 2 must be taken before anything else is opened; what else we were started with is none of
 * our business, nor of the commands'. */
static void fill_stdio(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= 2);
	close_from(3);
}

int main(int argc, char **argv)
{
	const char *where = NULL;
	bool daemon = false;

	fill_stdio();
	if (argc == 2 && strcmp(argv[1], "version") == 0) {
		printf("moat-guest " MOAT_VERSION " wire %d\n", WIRE_VERSION);
		return fflush(stdout) == 0 ? 0 : 1;
	}
	if (argc < 3 || strcmp(argv[1], "serve") != 0)
		return usage();
	for (int i = 2; i < argc; i++) {
		if (strcmp(argv[i], "--daemon") == 0)
			daemon = true;
		else if (!where)
			where = argv[i];
		else
			return usage();
	}
	if (!where || (daemon && strcmp(where, "-") == 0))
		return usage();
	return serve(where, daemon);
}
