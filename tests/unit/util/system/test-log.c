#include "util/system/log.h"

#include <pthread.h>

#include "tap.h"
#include "scratch.h"

static int fd;

static char *logged(void)
{
	char *text = get_file(at("log"));

	if (ftruncate(fd, 0) < 0)
		abort();
	return text;
}

static void test_line(void)
{
	auto_free char *line = NULL, *none = NULL;
	struct op op = {.id = "c1r2", .cancel_fd = -1};
	int y, m, d, h, mi, s, ms;

	errno = EXDEV;
	log_msg(&op, LOG_WARN, "evil \x1b[31m\nname: %s", "x\r\ny");
	OK(errno == EXDEV);
	line = logged();
	OK(sscanf(line, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ ", &y, &m, &d, &h, &mi, &s, &ms) == 7);
	STR_IS(strchr(line, ' '), " warn c1r2: evil \\x1b[31m\\x0aname: x\\x0d\\x0ay\n");
	log_msg(&op, LOG_DEBUG, "not asked for");
	none = logged();
	STR_IS(none, "");
}

static void test_error(void)
{
	auto_free char *line = NULL, *huge = NULL;
	char filler[8000];
	struct err e;

	err_sys(&e, ENOENT, "open x");
	errno = EXDEV;
	log_err(NULL, LOG_ERROR, &e, "cannot %s", "go on");
	OK(errno == EXDEV);
	line = logged();
	OK(strstr(line, " error cannot go on: open x: No such file or directory (not_found, "));
	OK(strstr(line, "test-log.c:"));
	memset(filler, '\n', sizeof(filler) - 1);
	filler[sizeof(filler) - 1] = 0;
	err_set(&e, ERR_BACKEND, "%s", filler);
	log_err(NULL, LOG_ERROR, &e, "%s", filler);
	huge = logged();
	OK(strchr(huge, '\n') ==
		huge + strlen(huge) - 1); /* it is one line, whatever it contains */
}

static void *chatter(void *arg)
{
	for (int i = 0; i < 500; i++)
		log_msg(NULL, LOG_INFO, "thread %s says the same thing again", (const char *)arg);
	return NULL;
}

static void test_threads(void)
{
	static const char *const names[] = {"a", "b", "c", "d"};
	auto_free char *text = NULL;
	pthread_t threads[4];
	unsigned lines = 0, whole = 0;

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, chatter, (void *)names[i]);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	text = logged();
	for (char *save, *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
		char who;

		lines++;
		whole += sscanf(l, "%*s info thread %c says the same", &who) == 1 &&
			 strlen(l) == strlen("2026-01-01T00:00:00.000Z info thread a says the same "
					     "thing again");
	}
	OK(lines == 2000 && whole == 2000);
}

int main(void)
{
	scratch_begin();
	fd = open(at("log"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	log_setup(LOG_INFO, fd);
	test_line();
	test_error();
	test_threads();
	close(fd);
	scratch_end();
	return tap_done();
}
