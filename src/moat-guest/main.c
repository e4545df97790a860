/* moat-guest - runs commands and moves files inside a guest, on behalf of the daemon outside. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wire/ascii.h"
#include "wire/wire.h"
#include "moat-guest/common/job.h"
#include "moat-guest/once/disc.h"
#include "moat-guest/once/once.h"
#include "moat-guest/serve/process.h"
#include "moat-guest/common/spool.h"
#include "moat-guest/command/supervisor.h"

#if defined(RUNNER_IS) && !RUNNER_IS
#error "the compiler is for another architecture than this runner"
#endif

static int usage(void)
{
	fputs("usage: moat-guest serve NAME|PATH|- [--ascii] [--daemon]\n"
	      "       moat-guest once|fetch|kill|forget ID [OLD...]\n"
	      "       moat-guest take DISC ID OFFSET LENGTH SHA256\n"
	      "       moat-guest check SIZE CRC\n"
	      "       moat-guest version\n"
	      "NAME is a virtio-serial port, PATH a device, - stdin and stdout.\n",
		stderr);
	return 2;
}

/* A command must never inherit the line, nor find its fds 0 to 2 closed. */
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

static int serve(const char *where, bool ascii, bool daemon)
{
	struct uplink uplink;
	int error = uplink_open(&uplink, where);

	if (!error && ascii)
		error = uplink_ascii(&uplink);
	spool_open(); /* if it fails, only output into files does not work */
	if (!error && daemon)
		go_to_background();
	if (!error) {
		process_prepare(uplink.is_port);
		blank_stdio(daemon);
		error = runner_serve(&uplink);
	}
	if (!error)
		return 0;
	fprintf(stderr, "moat-guest: %s: %s%s\n", where, strerror(error),
		error == EBUSY ? " (is " WIRE_ANOTHER_RUNNER " serving it?)" : "");
	return 1;
}

/* The fds 0 to 2 must be taken before any other is opened. All others that this process has got
 * from its parent are closed, so that commands do not inherit them. */
static void fill_stdio(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= 2);
	close_fds(3);
}

/* Whether this program is, byte for byte, the one that the host expects here. 0: it is. */
static int check(const char *size, const char *crc)
{
	static uint8_t chunk[64 * 1024];
	unsigned long long total = 0;
	uint32_t sum = 0;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : 0;

	while (fd >= 0 && (n = read(fd, chunk, sizeof(chunk))) > 0) {
		sum = ascii_crc(sum, chunk, (size_t)n);
		total += (unsigned long long)n;
	}
	if (fd >= 0)
		close(fd);
	return n < 0 || total != strtoull(size, NULL, 10) || sum != strtoul(crc, NULL, 16);
}

static bool is_once(const char *word)
{
	return strcmp(word, "once") == 0 || strcmp(word, "fetch") == 0 ||
	       strcmp(word, "kill") == 0 || strcmp(word, "forget") == 0;
}

int main(int argc, char **argv)
{
	const char *where = NULL;
	bool ascii = false, daemon = false;

	fill_stdio();
	if (argc == 2 && strcmp(argv[1], "version") == 0) {
		printf("moat-guest " MOAT_VERSION " wire %d\n", WIRE_VERSION);
		return fflush(stdout) == 0 ? 0 : 1;
	}
	if (argc == 4 && strcmp(argv[1], "check") == 0)
		return check(argv[2], argv[3]);
	if (argc >= 2 && strcmp(argv[1], "take") == 0)
		return take_main(argc, argv);
	if (argc >= 2 && is_once(argv[1]))
		return once_main(argc, argv);
	if (argc < 3 || strcmp(argv[1], "serve") != 0)
		return usage();
	for (int i = 2; i < argc; i++) {
		if (strcmp(argv[i], "--daemon") == 0)
			daemon = true;
		else if (strcmp(argv[i], "--ascii") == 0)
			ascii = true;
		else if (!where)
			where = argv[i];
		else
			return usage();
	}
	if (!where || (daemon && strcmp(where, "-") == 0))
		return usage();
	return serve(where, ascii, daemon);
}
