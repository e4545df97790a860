#include "util/system/io.h"
#include "util/thread/thread.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "tap.h"
#include "scratch.h"

static void test_read_limit(void)
{
	auto_free char *text = NULL;
	size_t len = 0;
	struct err e;

	put_file(at("ten"), "0123456789");
	OK(file_read(at("ten"), 10, &text, &len, &e) == 0 && len == 10);
	STR_IS(text, "0123456789");
	free(text);
	text = NULL;
	OK(file_read(at("ten"), 9, &text, &len, &e) < 0 && e.kind == ERR_LIMIT && !text);
	OK(file_read(at("none"), 9, &text, &len, &e) < 0 && e.kind == ERR_NOT_FOUND);
	OK(strstr(e.msg, "/none: No such file"));
	OK(file_read(scratch, 9, &text, &len, &e) < 0 && e.kind == ERR_IS_DIR);
	OK(file_read("/dev/zero", 100000, &text, NULL, &e) < 0 && e.kind == ERR_LIMIT);
	put_file(at("empty"), "");
	OK(file_read(at("empty"), 0, &text, &len, &e) == 0 && len == 0);
	STR_IS(text, "");
}

static void test_atomic_write(void)
{
	auto_free char *text = NULL, *after = NULL;
	struct stat before, st;
	char path[128];
	struct err e;
	int n;

	snprintf(path, sizeof(path), "%s", at("atomic"));
	OK(file_write_atomic(path, "old", 3, 0640, &e) == 0);
	OK(stat(path, &before) == 0 && (before.st_mode & 0777) == 0640);
	n = entries_in(scratch);
	auto_fd int reader = open(path, O_RDONLY | O_CLOEXEC);
	OK(file_write_atomic(path, "brand new", 9, 0600, &e) == 0);
	text = get_file(path);
	STR_IS(text, "brand new");
	/* A process that had the file open keeps the old one, complete. */
	char old[16] = "";
	OK(read(reader, old, sizeof(old)) == 3);
	STR_IS(old, "old");
	OK(stat(path, &st) == 0 && st.st_ino != before.st_ino && (st.st_mode & 0777) == 0600);
	OK(entries_in(scratch) == n);
	/* A failure leaves the old file, and no temporary one. */
	OK(mkdir(at("dir"), 0700) == 0);
	n = entries_in(scratch);
	OK(file_write_atomic(at("dir"), "x", 1, 0600, &e) < 0);
	OK(entries_in(scratch) == n);
	OK(file_write_atomic(at("missing/x"), "x", 1, 0600, &e) < 0 && e.kind == ERR_NOT_FOUND);
	after = get_file(path);
	STR_IS(after, "brand new");
}

static void test_tail(void)
{
	auto_free char *a = NULL, *b = NULL, *c = NULL;

	put_file(at("log"), "line one\nline two\n");
	a = file_tail(at("log"), 5);
	STR_IS(a, " two\n");
	b = file_tail(at("log"), 1000);
	STR_IS(b, "line one\nline two\n");
	c = file_tail(at("nothing"), 10);
	STR_IS(c, "");
}

static void test_dir_make(void)
{
	struct stat st;
	struct err e;

	OK(dir_make(at("a/b/c"), 0700, &e) == 0 && dir_make(at("a/b/c"), 0700, &e) == 0);
	OK(stat(at("a/b"), &st) == 0 && (st.st_mode & 0777) == 0700);
	OK(dir_make(at("a/b/d/"), 0700, &e) == 0 && path_exists(at("a/b/d")));
	put_file(at("a/file"), "");
	OK(dir_make(at("a/file/x"), 0700, &e) < 0);
	OK(dir_make(at("a/file"), 0700, &e) < 0);
}

static void test_remove_spares_links(void)
{
	struct err e;

	OK(mkdir(at("precious"), 0700) == 0);
	put_file(at("precious/data"), "keep me");
	OK(dir_make(at("tree/sub/deep"), 0700, &e) == 0 && mkdir(at("tree/sub/shut"), 0) == 0);
	put_file(at("tree/sub/file"), "x");
	OK(symlink(at("precious"), at("tree/sub/link")) == 0);
	OK(symlink(at("precious/data"), at("tree/filelink")) == 0);
	OK(symlink("/nonexistent", at("tree/dangling")) == 0);
	OK(mkfifo(at("tree/fifo"), 0600) == 0);
	OK(dir_remove(at("tree"), &e) == 0 && !path_exists(at("tree")));
	OK(path_exists(at("precious/data")));
	OK(dir_remove(at("tree"), &e) == 0); /* already gone */
	/* A link is not followed even if it is the path itself. */
	OK(symlink(at("precious"), at("alias")) == 0);
	OK(dir_remove(at("alias"), &e) < 0);
	OK(path_exists(at("precious/data")));
	OK(dir_remove(at("precious/data"), &e) < 0 && path_exists(at("precious/data")));
}

/* An ordinary user cannot remove from a directory without write permission; root can. */
static void test_remove_read_only(void)
{
	struct err e;
	int status;
	pid_t pid;

	OK(dir_make(at("mine/ro/sub"), 0700, &e) == 0);
	put_file(at("mine/ro/file"), "x");
	if (getuid() == 0)
		OK(chown(at("mine"), 65534, 65534) == 0 &&
			chown(at("mine/ro"), 65534, 65534) == 0 && chmod(scratch, 0711) == 0 &&
			chown(at("mine/ro/sub"), 65534, 65534) == 0);
	OK(chmod(at("mine/ro/sub"), 0) == 0 && chmod(at("mine/ro"), 0500) == 0);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (getuid() == 0 && setuid(65534) < 0)
			_exit(9);
		_exit(dir_remove(at("mine/ro"), &e) < 0);
	}
	OK(waitpid(pid, &status, 0) == pid && status == 0);
	OK(path_exists(at("mine")) && !path_exists(at("mine/ro")));
}

static void *remove_deep(void *arg)
{
	struct err e = {0};
	int rc = dir_remove(arg, &e);

	tap_ok(rc == 0, "a deep directory is removed%s%s", rc ? ": " : "", rc ? e.msg : "");
	return NULL;
}

/* No path reaches so far down, and no stack of the daemon's threads. */
static void test_remove_deep(void)
{
	char dir[512];
	pthread_t thread;
	struct err e;
	int fd, below;

	snprintf(dir, sizeof(dir), "%s", at("deep"));
	OK(mkdir(dir, 0700) == 0);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < 6000 && fd >= 0; i++, fd = below) {
		below = mkdirat(fd, "d", 0700) < 0
				? -1
				: openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
	}
	OK(fd >= 0);
	close(fd);
	OK(thread_start(&thread, "deep", remove_deep, dir, &e) == 0);
	pthread_join(thread, NULL);
	OK(!path_exists(dir));
}

static void *remove_shared(void *arg)
{
	const char *path = arg;
	struct err e;
	int rc = dir_remove(path, &e);

	if (rc < 0)
		printf("# %s\n", e.msg);
	return rc < 0 ? (void *)path : NULL;
}

/* Two daemons with one data directory remove the same leftovers. */
static void test_remove_together(void)
{
	enum { REMOVERS = 4, DIRS = 400 };
	pthread_t thread[REMOVERS];
	char *tree = strdup(at("shared"));
	void *failed;
	struct err e;

	for (int i = 0; i < DIRS; i++)
		if (dir_make(at("shared/%d/%d/%d", i % 7, i % 31, i), 0700, &e) < 0)
			abort();
	for (int i = 0; i < REMOVERS; i++)
		OK(pthread_create(&thread[i], NULL, remove_shared, tree) == 0);
	for (int i = 0; i < REMOVERS; i++)
		OK(pthread_join(thread[i], &failed) == 0 && !failed);
	OK(!path_exists(tree));
	free(tree);
}

static void *slow_reader(void *arg)
{
	int fd = *(int *)arg;
	size_t sum = 0;
	char buf[4096];
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0)
		sum += (size_t)n;
	return (void *)sum;
}

static void test_streams(void)
{
	enum { BIG = 3000000 };
	auto_free uint8_t *big = calloc(1, BIG);
	auto_buf struct buf b = {0};
	struct op op = op_for_cleanup(30), brief = op_for_cleanup(0.05);
	pthread_t thread;
	int fds[2];
	char two[2];
	struct err e;
	void *sum;

	OK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0 && fd_set_nonblock(fds[0], &e) == 0);
	pthread_create(&thread, NULL, slow_reader, &fds[1]);
	OK(io_write_all(&op, fds[0], big, BIG, &e) == 0);
	shutdown(fds[0], SHUT_WR);
	pthread_join(thread, &sum);
	OK((size_t)sum == BIG);
	OK(write(fds[1], "abc", 3) == 3);
	OK(io_fill_now(&b, fds[0], 1, &e) == 1 && b.len == 1);
	OK(io_read_exact(&op, fds[0], two, 2, &e) == 0 && two[1] == 'c');
	OK(io_fill_now(&b, fds[0], 10, &e) < 0 && e.sys == EAGAIN && b.len == 1);
	OK(io_fill(&brief, &b, fds[0], 10, &e) < 0 && e.kind == ERR_TIMEOUT);
	OK(write(fds[1], "z", 1) == 1);
	close(fds[1]);
	OK(io_read_exact(&op, fds[0], two, 2, &e) < 0 && e.kind == ERR_UNAVAILABLE);
	OK(io_fill(&op, &b, fds[0], 10, &e) == 0 && io_fill_now(&b, fds[0], 10, &e) == 0);
	OK(io_write_all(&op, fds[0], "x", 1, &e) < 0);
	close(fds[0]);
}

/* The peer does not read: the deadline ends the writing. */
static void test_write_timeout(void)
{
	enum { BIG = 1 << 20 };
	auto_free uint8_t *big = calloc(1, BIG);
	struct op op = op_for_cleanup(0.05);
	int fds[2];
	struct err e;

	OK(pipe(fds) == 0 && fd_set_nonblock(fds[1], &e) == 0);
	OK(io_write_all(&op, fds[1], big, BIG, &e) < 0 && e.kind == ERR_TIMEOUT);
	close(fds[0]);
	close(fds[1]);
}

static void test_write_at(void)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	char got[6] = "";
	struct err e;

	OK(file_write_at(fd, "abc", 3, 2, &e) == 0 && file_write_at(fd, "x", 1, 3, &e) == 0);
	OK(pread(fd, got, sizeof(got), 0) == 5 && memcmp(got, "\0\0axc", 5) == 0);
	close(fd);
	OK(file_write_at(fd, "x", 1, 0, &e) < 0 && e.sys == EBADF);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN); /* as the daemon does */
	umask(077);
	scratch_begin();
	test_read_limit();
	test_atomic_write();
	test_tail();
	test_dir_make();
	test_remove_spares_links();
	test_remove_deep();
	test_remove_read_only();
	test_remove_together();
	test_streams();
	test_write_timeout();
	test_write_at();
	scratch_end();
	return tap_done();
}
