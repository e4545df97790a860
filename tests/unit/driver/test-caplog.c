#include "driver/caplog.h"

#include <sys/resource.h>

#include "tap.h"
#include "scratch.h"

static long size_of(const char *path)
{
	struct stat st;

	return stat(path, &st) < 0 ? -1 : (long)st.st_size;
}

static struct bytes text(const char *s)
{
	return (struct bytes){(const uint8_t *)s, strlen(s)};
}

static void test_append(void)
{
	struct caplog log = CAPLOG_NONE;
	auto_free char *got = NULL;
	struct stat st;
	struct err e;

	caplog_add(&log, text("nowhere")); /* not open: ignored */
	caplog_close(&log);
	put_file(at("log"), "of an earlier life");
	OK(caplog_open(&log, at("log"), &e) == 0);
	caplog_add(&log, text("one\n"));
	caplog_add(&log, (struct bytes){0});
	caplog_add(&log, text("two\n"));
	got = get_file(at("log"));
	STR_IS(got, "one\ntwo\n");
	OK(stat(at("log"), &st) == 0 && (st.st_mode & 0777) == 0600);
	caplog_close(&log);
	OK(log.fd == -1 && !log.path);
	OK(caplog_open(&log, at("no/such"), &e) < 0 && e.kind == ERR_NOT_FOUND && log.fd == -1);
}

/* However much is written, there are two files, and the newest bytes are in them. */
static void test_rotation(void)
{
	enum { PIECE = 1 << 20 };
	auto_free uint8_t *piece = malloc(PIECE);
	auto_free char *now = NULL, *before = NULL;
	struct caplog log = CAPLOG_NONE;
	bool bounded = true;
	struct err e;

	OK(caplog_open(&log, at("big"), &e) == 0);
	for (int i = 0; i < 30; i++) {
		memset(piece, 'a' + i % 26, PIECE);
		caplog_add(&log, (struct bytes){piece, PIECE});
		bounded &= size_of(at("big")) <= CAPLOG_MAX && size_of(at("big.1")) <= CAPLOG_MAX;
	}
	OK(bounded);
	now = get_file(at("big"));
	before = get_file(at("big.1"));
	OK(now && strlen(now) == 6 * PIECE && now[6 * PIECE - 1] == 'a' + 29 % 26);
	OK(before && strlen(before) == 8 * PIECE && before[8 * PIECE - 1] == 'a' + 23);
	OK(entries_in(scratch) == 3); /* one more is the other test's */
	caplog_close(&log);
}

static void test_trouble(void)
{
	auto_free uint8_t *huge = calloc(1, CAPLOG_MAX + 1);
	struct caplog log = CAPLOG_NONE;
	auto_free char *got = NULL;
	struct err e;

	OK(caplog_open(&log, at("odd"), &e) == 0);
	caplog_add(&log, (struct bytes){huge, CAPLOG_MAX + 1}); /* too long: dropped */
	caplog_add(&log, text("goes on"));
	got = get_file(at("odd"));
	STR_IS(got, "goes on");
	/* If the rename fails, the file must not grow. */
	OK(mkdir(at("odd.1"), 0700) == 0 || errno == EEXIST);
	OK(unlink(at("odd.1")) == 0 && mkdir(at("odd.1"), 0700) == 0);
	caplog_add(&log, (struct bytes){huge, CAPLOG_MAX});
	caplog_add(&log, (struct bytes){huge, CAPLOG_MAX});
	OK(size_of(at("odd")) <= CAPLOG_MAX);
	caplog_close(&log);
}

/* A log that could not be renamed for a while goes on afterwards. */
static void test_no_files(void)
{
	auto_free uint8_t *full = calloc(1, CAPLOG_MAX);
	struct rlimit limit, none;
	struct caplog log = CAPLOG_NONE;
	auto_free char *got = NULL;
	struct err e;

	OK(caplog_open(&log, at("short"), &e) == 0);
	caplog_add(&log, (struct bytes){full, CAPLOG_MAX});
	OK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	none = (struct rlimit){0, limit.rlim_max};
	OK(setrlimit(RLIMIT_NOFILE, &none) == 0);
	caplog_add(&log, text("lost"));
	OK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	caplog_add(&log, text("kept"));
	got = get_file(at("short"));
	STR_IS(got, "kept");
	OK(size_of(at("short.1")) == CAPLOG_MAX);
	caplog_close(&log);
}

int main(void)
{
	umask(022);
	scratch_begin();
	test_append();
	test_rotation();
	test_trouble();
	test_no_files();
	scratch_end();
	return tap_done();
}
