/* Files through the real runner, as root and as nobody. */

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner-peer.h"
#include "tap.h"

enum { LARGE = 64 * 1024 * 1024 };

static struct peer peer;
static char dir[] = "/tmp/runner-files.XXXXXX"; /* 0755, of root; dir/mine is nobody's */

static struct job run(struct job j)
{
	if (!j.cwd)
		j.cwd = dir;
	job_run(&peer, &j);
	return j;
}

/* Runs an operation and returns the errno that it ends with. */
static int fails(struct job j)
{
	j = run(j);
	job_free(&j);
	return (int)j.end.code;
}

static struct job write_file(const char *path, const char *text, struct job j)
{
	j.msg.type = WIRE_WRITE;
	j.path = path;
	j.input = text;
	j.input_len = strlen(text);
	return j;
}

static struct job read_file(const char *path, struct job j)
{
	j.msg.type = WIRE_READ;
	j.path = path;
	return j;
}

static struct stat stat_of(const char *name)
{
	char path[256];
	struct stat st = {0};

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	lstat(path, &st);
	return st;
}

static void test_write_and_read(void)
{
	struct job j = run(write_file("a", "hello\0x", (struct job){0}));

	OK(j.end.type == WIRE_DONE && j.end.code == 0 && j.end.size == 5);
	OK(stat_of("a").st_mode == (S_IFREG | 0644));
	job_free(&j);
	j = run(read_file("a", (struct job){0}));
	OK(j.end.code == 0 && j.end.size == 5 && (j.end.mode & 07777) == 0644);
	STR_IS(j.out.p, "hello");
	job_free(&j);
	OK(fails(write_file("a", " again", (struct job){.msg = {.flags = WIRE_WRITE_APPEND}})) ==
		0);
	OK(fails(write_file("b", "", (struct job){.msg = {.mode = 0751}})) == 0);
	OK(stat_of("b").st_mode == (S_IFREG | 0751) && stat_of("b").st_size == 0);
	j = run(read_file("a", (struct job){0}));
	STR_IS(j.out.p, "hello again");
	job_free(&j);
	/* a file of another user that all may write keeps its mode and gets the content */
	OK(fails(write_file("everyones", "old", (struct job){.msg = {.mode = 0666}})) == 0);
	OK(fails(write_file("everyones", "newer",
		   (struct job){.msg = {.mode = 0600}, .user = "nobody"})) == 0);
	OK(stat_of("everyones").st_size == 5 && stat_of("everyones").st_mode == (S_IFREG | 0666));
	/* in place: a link is followed, the mode stays */
	OK(fails((struct job){.msg.type = WIRE_SYMLINK, .path = "link", .target = "b"}) == 0);
	OK(fails(write_file("link", "through", (struct job){0})) == 0);
	OK(S_ISLNK(stat_of("link").st_mode) && stat_of("b").st_size == 7);
	OK(stat_of("b").st_mode == (S_IFREG | 0751));
}

static void test_parents(void)
{
	struct job with = {.msg = {.flags = WIRE_WRITE_PARENTS}, .user = "nobody"};
	struct stat st;

	OK(fails(write_file("x/y/z", "1", (struct job){0})) == ENOENT);
	OK(fails(write_file("mine/x/y/z", "1", with)) == 0);
	st = stat_of("mine/x/y");
	OK(st.st_uid == 65534 && st.st_mode == (S_IFDIR | 0755));
	OK(stat_of("mine/x/y/z").st_uid == 65534);
	OK(fails(write_file("theirs/x", "1", with)) == EACCES);
	OK(fails(write_file("a/x/y", "1", with)) == ENOTDIR);
}

static void test_errors(void)
{
	struct job nobody = {.user = "nobody"};
	struct job j = run(read_file("/no/such", (struct job){0}));

	OK(j.end.code == ENOENT);
	STR_IS(j.message.p, "/no/such: No such file or directory");
	job_free(&j);
	OK(fails(read_file("/etc/shadow", nobody)) == EACCES);
	OK(fails(read_file("/root/.profile", nobody)) == EACCES);
	OK(fails(read_file("/etc/shadow", (struct job){0})) == 0);
	OK(fails(write_file("a", "no", nobody)) == EACCES);
	OK(fails(write_file("new", "no", nobody)) == EACCES);
	OK(fails(read_file(".", (struct job){0})) == EISDIR);
	OK(fails(write_file("mine", "x", (struct job){0})) == EISDIR);
	OK(fails(read_file("a/b", (struct job){0})) == ENOTDIR);
	OK(fails(read_file("", (struct job){0})) == ENOENT);
	OK(fails(write_file("/dev/full", "x", (struct job){0})) == ENOSPC);
	OK(fails(write_file("/proc/version", "x", (struct job){0})) == EACCES ||
		fails(write_file("/proc/version", "x", (struct job){0})) == EIO);
	j = run(read_file("a", (struct job){.user = "no-one"}));
	OK(j.end.code == EINVAL);
	STR_IS(j.message.p, "no such user: no-one");
	job_free(&j);
	/* and the runner has its own user and directory again */
	OK(fails(read_file("/etc/shadow", (struct job){0})) == 0);
}

static bool copy(const char *from, const char *to)
{
	struct job j = {.argv = ARGV("cp", from, to), .cwd = dir};

	job_run(&peer, &j);
	job_free(&j);
	return j.end.code == 0;
}

static void test_odd_files(void)
{
	struct peer_bytes body;
	struct wire_msg m;
	struct job j;
	char path[256];

	snprintf(path, sizeof(path), "%s/fifo", dir);
	OK(mkfifo(path, 0666) == 0);
	OK(fails(read_file("fifo", (struct job){0})) == 0); /* there is no writer: it is empty */
	OK(fails(write_file("fifo", "x", (struct job){0})) == ENXIO);
	j = run(read_file("/proc/self/status", (struct job){.msg = {.max = 1 << 20}}));
	OK(j.end.code == 0 && j.out.len > 100 && j.end.size == j.out.len);
	job_free(&j);
	OK(fails(read_file("/proc/self/status", (struct job){.msg = {.max = 100}})) == EFBIG);
	/* a running program cannot be written to; this one prints that it runs */
	OK(copy("/bin/yes", "prog"));
	j = (struct job){.argv = ARGV("./prog"), .cwd = dir, .msg = {0}};
	job_start(&peer, &j);
	OK(peer_next(&peer, PATIENCE_MS, &m, &body) && m.type == WIRE_DATA && m.id == j.id);
	OK(fails(write_file("prog", "x", (struct job){0})) == ETXTBSY);
	job_order(&peer, &j, &(struct wire_msg){.type = WIRE_CANCEL});
	jobs_finish(&peer, &j, 1);
	job_free(&j);
}

static void test_limit(void)
{
	struct job j = run(read_file("a", (struct job){.msg = {.max = 10}}));

	OK(j.end.code == EFBIG && j.out.len == 0); /* "hello again" is 11 */
	job_free(&j);
	OK(fails(read_file("a", (struct job){.msg = {.max = 11}})) == 0);
}

static void test_large(void)
{
	char *data = malloc(LARGE);
	struct job j = {.msg = {.type = WIRE_WRITE}, .path = "large", .cwd = dir};
	struct job echo = {.argv = ARGV("echo", "hi")};
	struct peer_bytes body;
	struct wire_msg m;

	for (size_t i = 0; i < LARGE / sizeof(uint32_t); i++)
		((uint32_t *)(void *)data)[i] = (uint32_t)i * 2654435761u;
	j.input = data;
	j.input_len = LARGE;
	job_run(&peer, &j);
	OK(j.end.code == 0 && j.end.size == LARGE);
	job_free(&j);
	j = run(read_file("large", (struct job){.msg = {.max = LARGE}}));
	OK(j.end.code == 0 && j.out.len == LARGE && memcmp(j.out.p, data, LARGE) == 0);
	job_free(&j);
	/* without credit it stops at the window, and other operations go on */
	j = read_file("large", (struct job){.cwd = dir});
	job_start(&peer, &j);
	while (peer_next(&peer, j.out.len < WIRE_WINDOW ? PATIENCE_MS : 500, &m, &body))
		j.out.len += body.len;
	OK(j.out.len == WIRE_WINDOW);
	job_run(&peer, &echo);
	STR_IS(echo.out.p, "hi\n");
	job_free(&echo);
	job_order(&peer, &j, &(struct wire_msg){.type = WIRE_CANCEL});
	OK(peer_next(&peer, 10000, &m, &body) && m.type == WIRE_DONE && m.code == ECANCELED);
	free(data);
}

/* Two readers and an endless writer to a pipe share the line. */
static void test_fairness(void)
{
	struct job jobs[] = {
		{.argv = ARGV("yes"), .msg = {.timeout_ms = 3000}},
		{.msg = {.type = WIRE_READ}, .path = "large", .cwd = dir},
		{.msg = {.type = WIRE_READ}, .path = "/dev/zero"},
		{.argv = SH("for i in 1 2 3; do echo $i; sleep 0.1; done")},
	};
	struct job *zero = &jobs[2];

	for (int i = 0; i < 4; i++)
		job_start(&peer, &jobs[i]);
	jobs_finish(&peer, &jobs[3], 1); /* also reads the others' data, uncredited */
	STR_IS(jobs[3].out.p, "1\n2\n3\n");
	for (int i = 0; i < 2; i++)
		job_order(&peer, &jobs[i], &(struct wire_msg){.type = WIRE_CANCEL});
	job_order(&peer, zero, &(struct wire_msg){.type = WIRE_CANCEL});
	jobs_finish(&peer, jobs, 3);
	for (int i = 0; i < 4; i++)
		job_free(&jobs[i]);
	OK(jobs[1].end.code == ECANCELED && zero->end.code == ECANCELED);
}

static int count_entries(struct peer_bytes b, const char *name, struct wire_entry *ret)
{
	const uint8_t *p = (const uint8_t *)b.p;
	struct wire_entry entry;
	size_t left = b.len;
	int n = 0;

	while (wire_next_entry(&p, &left, &entry) == 1) {
		if (strcmp(entry.name, name) == 0)
			*ret = entry;
		n++;
	}
	return left ? -1 : n;
}

/* Lists a directory that exceeds the window. Its entries are links, which are made faster than
 * files. */
enum { MANY = 5000 };
#define MANY_NAME "%0100d"

static bool make_many(void)
{
	char file[256], path[256];

	snprintf(path, sizeof(path), "%s/many", dir);
	snprintf(file, sizeof(file), "%s/a", dir);
	if (mkdir(path, 0755) < 0)
		return false;
	for (int i = 0; i < MANY; i++) {
		snprintf(path, sizeof(path), "%s/many/" MANY_NAME, dir, i);
		if (link(file, path) < 0)
			return false;
	}
	return true;
}

static void test_list(void)
{
	char last[128];
	struct wire_entry entry = {0};
	struct job j = run((struct job){.msg.type = WIRE_LIST, .path = "."});

	OK(j.end.code == 0 && count_entries(j.out, "link", &entry) == 8 && j.end.size == 8);
	OK(S_ISLNK(entry.mode) && strcmp(entry.target, "b") == 0);
	OK(count_entries(j.out, "large", &entry) == 8 && entry.size == LARGE &&
		entry.mtime == stat_of("large").st_mtime && entry.target[0] == 0);
	job_free(&j);
	j = run((struct job){.msg.type = WIRE_LIST, .path = "link"});
	OK(j.end.code == 0 && count_entries(j.out, "", &entry) == 1 && entry.size == 7 &&
		S_ISREG(entry.mode));
	job_free(&j);
	OK(make_many());
	snprintf(last, sizeof(last), MANY_NAME, MANY - 1);
	j = run((struct job){.msg.type = WIRE_LIST, .path = "many", .user = "nobody"});
	OK(j.end.code == 0 && count_entries(j.out, last, &entry) == MANY);
	OK(S_ISREG(entry.mode) && j.out.len > WIRE_WINDOW);
	job_free(&j);
	OK(fails((struct job){.msg.type = WIRE_LIST, .path = "nope"}) == ENOENT);
	OK(fails((struct job){.msg.type = WIRE_LIST, .path = "/root", .user = "nobody"}) == EACCES);
}

static void test_mkdir_symlink(void)
{
	OK(fails((struct job){.msg = {.type = WIRE_MKDIR}, .path = "d"}) == 0);
	OK(stat_of("d").st_mode == (S_IFDIR | 0755));
	OK(fails((struct job){.msg = {.type = WIRE_MKDIR}, .path = "d"}) == 0);
	OK(fails((struct job){.msg = {.type = WIRE_MKDIR}, .path = "new/deep/er"}) == 0);
	OK(fails((struct job){.msg = {.type = WIRE_MKDIR}, .path = "/etc/passwd"}) == EEXIST);
	OK(fails((struct job){.msg = {.type = WIRE_MKDIR, .mode = 01777}, .path = "e"}) == 0);
	OK(stat_of("e").st_mode == (S_IFDIR | 01777));
	OK(fails((struct job){.msg = {.type = WIRE_MKDIR, .mode = 0700}, .path = "g/"}) == 0);
	OK(stat_of("g").st_mode == (S_IFDIR | 0700));
	OK(fails((struct job){.msg = {.type = WIRE_MKDIR}, .path = "f", .user = "nobody"}) ==
		EACCES);
	OK(fails((struct job){.msg = {.type = WIRE_SYMLINK}, .path = "d", .target = "x"}) ==
		EEXIST);
	OK(fails((struct job){.msg = {.type = WIRE_SYMLINK},
		   .path = "mine/l",
		   .target = "anything at all",
		   .user = "nobody"}) == 0);
	OK(stat_of("mine/l").st_uid == 65534);
}

int main(void)
{
	struct job j;
	char mine[64];

	if (tap_needs_root("it gives files to other users"))
		return 0;
	if (!mkdtemp(dir) || chmod(dir, 0755) < 0)
		return 1;
	snprintf(mine, sizeof(mine), "%s/mine", dir);
	if (mkdir(mine, 0755) < 0 || chown(mine, 65534, 65534) < 0)
		return 1;
	peer_start(&peer);
	test_write_and_read();
	test_parents();
	test_errors();
	test_odd_files();
	test_limit();
	test_large();
	test_list();
	test_fairness();
	test_mkdir_symlink();
	j = run((struct job){.argv = ARGV("rm", "-rf", dir), .cwd = "/"});
	OK(j.end.code == 0);
	job_free(&j);
	peer_stop(&peer);
	return tap_done();
}
