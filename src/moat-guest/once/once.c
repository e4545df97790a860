#include "moat-guest/once/once.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "wire/ascii.h"
#include "moat-guest/common/spool.h"
#include "util/auto.h"
#include "wire/base64-raw.h"

enum {
	REQUEST_MAX = 64 * 1024 * 1024,
	STDIN_MAX = 96 * 1024,
	PRINT_PIECE = 12 * 1024, /* a multiple of 3 */
	KILL_S = 15, /* a tree that will not die is given up by the runner before that */
	PID_MS = 100,
	PID_TRIES = 10,
};

static int complain(const char *what, int error)
{
	fprintf(stderr, "moat-guest: %s%s%s\n", what, error ? ": " : "",
		error ? strerror(error) : "");
	return ONCE_BAD;
}

/* Reads fd to its end. Returns the number of bytes, or -1. */
static long read_all(int fd, char *p, size_t max)
{
	size_t len = 0;
	ssize_t n;

	while ((n = read(fd, p + len, max - len)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		len += (size_t)n;
		if (len == max)
			break;
	}
	return (long)len;
}

void once_request_drop(struct once_request *rq)
{
	if (rq->mapped)
		munmap(rq->request, rq->len);
	else
		free(rq->request);
	rq->request = NULL;
}

/* A request in one file, which may be larger than our memory. */
static int map_part(const struct ascii_head *h, struct once_request *rq)
{
	char name[ASCII_ID_MAX + 16];
	auto_fd int fd = -1;
	struct stat st;
	void *p;

	snprintf(name, sizeof(name), "%s.0", h->id);
	fd = openat(spool_dir(), name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return errno;
	if (!h->length || h->length > SIZE_MAX / 2 || (uint64_t)st.st_size != h->length)
		return EIO;
	p = mmap(NULL, (size_t)h->length, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		return errno;
	madvise(p, (size_t)h->length, MADV_SEQUENTIAL);
	unlinkat(spool_dir(), name, 0);
	*rq = (struct once_request){.request = p, .len = (unsigned long)h->length, .mapped = true};
	return 0;
}

static int read_parts(const struct ascii_head *h, uint8_t *p)
{
	size_t at = 0;

	for (uint32_t i = 0; i < h->parts; i++) {
		char name[ASCII_ID_MAX + 16];
		auto_fd int fd = -1;
		long n;

		snprintf(name, sizeof(name), "%s.%u", h->id, i);
		fd = openat(spool_dir(), name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		n = fd < 0 ? -1 : read_all(fd, (char *)p + at, h->length - at);
		if (n < 0)
			return errno;
		at += (size_t)n;
		unlinkat(spool_dir(), name, 0);
	}
	return at == h->length ? 0 : EIO;
}

static int read_memory(
	const struct ascii_head *h, const char *text, size_t len, struct once_request *rq)
{
	/* The last group of base64 is decoded as if it had no padding. */
	uint8_t *p = h->length > REQUEST_MAX ? NULL : malloc(h->length + 4);
	int error = 0;

	if (!p)
		return ENOMEM;
	if (h->parts)
		error = read_parts(h, p);
	else if (base64_len(h->length) != len || base64_get(text, len, p) != (long)h->length)
		error = EILSEQ;
	if (error)
		free(p);
	else
		*rq = (struct once_request){.request = p, .len = h->length};
	return error;
}

/* The request on stdin. 0, or the exit status after a complaint. */
static int read_request(const char *id, struct once_request *ret)
{
	static char text[STDIN_MAX];
	long n = read_all(STDIN_FILENO, text, sizeof(text));
	struct once_request rq = {0};
	struct ascii_head h;
	size_t head;
	int error;

	head = n > 0 ? ascii_get_head(text, (size_t)n, &h) : 0;
	if (!head || strcmp(h.id, id) != 0)
		return complain("no request on stdin", 0);
	while ((size_t)n > head && text[n - 1] == '\n')
		n--;
	if (h.parts == 1)
		error = map_part(&h, &rq);
	else
		error = read_memory(&h, text + head, (size_t)n - head, &rq);
	if (!error && ascii_crc(0, rq.request, rq.len) != h.crc) {
		once_request_drop(&rq);
		error = EILSEQ;
	}
	if (error)
		return complain("request", error);
	rq.dir = rq.lock = -1;
	*ret = rq;
	return 0;
}

/* Makes the directory of a new result, which gets its name when its lock is held. 0 or an errno,
 * EEXIST if there is one already. */
static int make_result(const char *id, struct once_request *rq)
{
	auto_fd int dir = -1, lock = -1;
	char name[32];
	int error;

	snprintf(name, sizeof(name), "new.%d", (int)getpid());
	if (mkdirat(spool_dir(), name, 0700) < 0 && errno != EEXIST)
		return errno;
	dir = openat(spool_dir(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	lock = dir < 0 ? -1 : openat(dir, "lock", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) < 0)
		return errno;
	if (renameat(spool_dir(), name, spool_dir(), id) < 0) {
		error = errno == ENOTEMPTY ? EEXIST : errno;
		unlinkat(dir, "lock", 0);
		unlinkat(spool_dir(), name, AT_REMOVEDIR);
		return error;
	}
	rq->dir = take_fd(&dir);
	rq->lock = take_fd(&lock);
	return 0;
}

/* Waits for the result. Returns its directory's fd, or -1. */
static int wait_for_result(const char *id)
{
	auto_fd int dir = openat(spool_dir(), id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	auto_fd int lock = dir < 0 ? -1 : openat(dir, "lock", O_RDONLY | O_CLOEXEC);
	int rc;

	if (lock < 0)
		return -1;
	do
		rc = flock(lock, LOCK_SH);
	while (rc < 0 && errno == EINTR);
	return rc < 0 ? -1 : take_fd(&dir);
}

/* Prints a small result as base64. */
static int print_part(int dir)
{
	static uint8_t bytes[PRINT_PIECE];
	static char text[PRINT_PIECE / 3 * 4];
	auto_fd int fd = openat(dir, "0", O_RDONLY | O_CLOEXEC);
	long n;

	if (fd < 0)
		return errno;
	while ((n = read_all(fd, (char *)bytes, sizeof(bytes))) > 0) {
		base64_put(bytes, (size_t)n, text);
		fwrite(text, 1, base64_len((size_t)n), stdout);
	}
	return n < 0 ? errno : 0;
}

static int give_result(const char *id)
{
	auto_fd int dir = wait_for_result(id);
	auto_fd int end = dir < 0 ? -1 : openat(dir, "end", O_RDONLY | O_CLOEXEC);
	char text[ASCII_HEAD_MAX];
	struct ascii_head h;
	long n = end < 0 ? -1 : read_all(end, text, sizeof(text));

	if (n <= 0 || !ascii_get_head(text, (size_t)n, &h)) {
		complain("no such request, or its result is lost", 0);
		return ONCE_UNKNOWN;
	}
	memcpy(h.id, id, strlen(id) + 1);
	if (h.length <= ONCE_INLINE_MAX)
		h.parts = 0;
	fwrite(text, 1, ascii_put_head(&h, text), stdout);
	if (!h.parts && h.length && print_part(dir))
		return complain("result", EIO);
	putchar('\n');
	return fflush(stdout) == 0 ? 0 : complain("stdout", errno);
}

static int run(const char *id, char **old)
{
	struct once_request rq = {.dir = -1, .lock = -1};
	int error;
	pid_t pid;

	/* The host asks again. The parts of the request are used up already. */
	if (faccessat(spool_dir(), id, F_OK, 0) == 0)
		return give_result(id);
	error = read_request(id, &rq);
	if (error)
		return faccessat(spool_dir(), id, F_OK, 0) == 0 ? give_result(id) : error;
	for (; *old; old++)
		spool_forget(*old);
	spool_sweep();
	error = make_result(id, &rq);
	if (error && error != EEXIST)
		return complain(spool_path(), error);
	if (!error) {
		pid = fork();
		if (pid < 0) {
			error = errno;
			unlinkat(spool_dir(), id, AT_REMOVEDIR);
			return complain("fork", error);
		}
		if (pid == 0)
			once_work(&rq);
		close(rq.dir);
		close(rq.lock);
	}
	once_request_drop(&rq);
	return give_result(id);
}

/*
 * The worker's pid; 0: there is no worker. A worker writes its pid soon after its lock is there, so
 * this does not wait long.
 */
static pid_t worker_of(const char *id)
{
	char path[ASCII_ID_MAX + 256], text[16] = "";
	auto_fd int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK), lock = -1;

	snprintf(path, sizeof(path), "%s/%s/lock", spool_path(), id);
	/* Before the first look, so that what is written after that look wakes us. */
	if (watch >= 0 && inotify_add_watch(watch, path, IN_MODIFY | IN_CLOSE_WRITE) < 0)
		return 0;
	snprintf(path, sizeof(path), "%s/lock", id);
	lock = openat(spool_dir(), path, O_RDONLY | O_CLOEXEC);
	for (int tries = 0; lock >= 0 && tries < PID_TRIES; tries++) {
		struct pollfd news = {.fd = watch, .events = POLLIN};
		char events[1024];

		if (flock(lock, LOCK_SH | LOCK_NB) == 0)
			return 0;
		if (pread(lock, text, sizeof(text) - 1, 0) > 0)
			return (pid_t)atol(text);
		if (poll(&news, 1, PID_MS) > 0 && read(watch, events, sizeof(events)) < 0)
			return 0;
	}
	return 0;
}

static void on_alarm(int number)
{
	(void)number; /* it interrupts flock */
}

/* Whether the worker lets go of its lock, which is its end, within so many seconds. */
static bool ends_within(const char *id, int seconds)
{
	const struct itimerval off = {0},
			       every = {.it_interval.tv_sec = 1, .it_value.tv_sec = seconds};
	const struct sigaction alarm_action = {.sa_handler = on_alarm};
	char path[ASCII_ID_MAX + 8];
	auto_fd int lock = -1;
	int rc;

	snprintf(path, sizeof(path), "%s/lock", id);
	lock = openat(spool_dir(), path, O_RDONLY | O_CLOEXEC);
	if (lock < 0)
		return true;
	sigaction(SIGALRM, &alarm_action, NULL);
	setitimer(ITIMER_REAL, &every, NULL); /* again and again: one may come just before flock */
	rc = flock(lock, LOCK_SH);
	setitimer(ITIMER_REAL, &off, NULL);
	return rc == 0;
}

static int kill_one(const char *id)
{
	pid_t pid = worker_of(id);

	if (pid > 1) {
		kill(pid, SIGTERM);
		if (!ends_within(id, KILL_S))
			kill(pid, SIGKILL); /* the runner sees the socket's end and kills everything
					     */
	}
	return give_result(id);
}

int once_main(int argc, char **argv)
{
	int error;

	for (int i = 2; i < argc; i++)
		if (!ascii_is_id(argv[i]))
			return complain("not an id", 0);
	if (argc < 3)
		return complain("no id", 0);
	error = spool_open();
	if (error)
		return complain("spool", error);
	signal(SIGPIPE, SIG_IGN);
	if (strcmp(argv[1], "once") == 0)
		return run(argv[2], argv + 3);
	if (strcmp(argv[1], "fetch") == 0)
		return give_result(argv[2]);
	if (strcmp(argv[1], "kill") == 0)
		return kill_one(argv[2]);
	for (int i = 2; i < argc; i++)
		spool_forget(argv[i]);
	return 0;
}
