#include "util/system/rendezvous.h"

#include <sys/file.h>
#include <sys/socket.h>

#include "tap.h"
#include "scratch.h"

static void test_notes(void)
{
	static const char *const none[] = {"", "\n", "12", "12 host", "12 host \n",
		"12 host path\n", "12 host /path", "x host /path\n", "0 host /path\n",
		"-1 host /path\n", "\0 12 host /path\n"};
	struct rendezvous_note n = {.pid = 77};
	char text[PATH_MAX + 64];

	for (size_t i = 0; i < ARRAY_LEN(none); i++)
		OK(!rendezvous_parse_note(none[i], &n) && n.pid == 77);
	OK(rendezvous_parse_note("12 host /a path/moat.sock\n", &n) && n.pid == 12);
	STR_IS(n.host, "host");
	STR_IS(n.socket, "/a path/moat.sock");

	/* the longest path, with its NUL, and one that is too long */
	int at = snprintf(text, sizeof(text), "12 host /");
	memset(text + at, 'd', PATH_MAX - 2);
	strcpy(text + at + PATH_MAX - 2, "\n");
	OK(rendezvous_parse_note(text, &n) && strlen(n.socket) == PATH_MAX - 1);
	strcpy(text + at + PATH_MAX - 2, "d\n");
	OK(!rendezvous_parse_note(text, &n));
}

static bool answers(const char *path)
{
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return rendezvous_connect(fd, path) == 0;
}

static void load(struct paths *ret, const char *state, const char *runtime)
{
	struct err e;

	setenv("MOAT_HOME", scratch, 1);
	setenv("MOAT_STATE_DIR", state, 1);
	setenv("MOAT_RUNTIME_DIR", runtime, 1);
	OK(paths_load(ret, &e) == 0 && paths_make(ret, &e) == 0);
}

static int take(const struct paths *paths, struct rendezvous *ret, struct err *e)
{
	struct op op = op_for_cleanup(0.2);

	return rendezvous_take(&op, paths, ret, e);
}

static void test_one_daemon(const char *state, const char *runtime)
{
	auto_paths struct paths paths = {0};
	struct rendezvous rv = RENDEZVOUS_INIT, other = RENDEZVOUS_INIT;
	struct rendezvous_note note;
	struct err e;

	load(&paths, state, runtime);
	OK(!rendezvous_held(&paths, &note));
	OK(take(&paths, &rv, &e) == 0);
	OK(rendezvous_held(&paths, &note) && note.pid == 0);
	OK(take(&paths, &other, &e) < 0 && e.kind == ERR_BUSY);
	OK(!answers(paths.socket) && rendezvous_keep(&rv, &e) == 1);
	OK(answers(paths.socket) && rendezvous_keep(&rv, &e) == 0);
	OK(rendezvous_held(&paths, &note) && note.pid == getpid() && note.here);
	STR_IS(note.socket, paths.socket);
	OK(take(&paths, &other, &e) < 0 && e.kind == ERR_BUSY);

	/* the whole directory is removed, with the lock in it */
	OK(dir_remove(runtime, &e) == 0 && !answers(paths.socket));
	OK(rendezvous_keep(&rv, &e) == 1 && answers(paths.socket));
	OK(take(&paths, &other, &e) < 0 && e.kind == ERR_BUSY);

	rendezvous_stop_listening(&rv);
	OK(!answers(paths.socket) && rendezvous_held(&paths, &note) && note.pid == 0);
	rendezvous_leave(&rv);
	OK(!rendezvous_held(&paths, &note));
	OK(take(&paths, &other, &e) == 0);
	rendezvous_leave(&other);
}

/* A note of a killed daemon is in the lock when the next daemon takes it. */
static void test_old_note(void)
{
	auto_paths struct paths paths = {0};
	struct rendezvous rv = RENDEZVOUS_INIT;
	struct rendezvous_note note;
	struct err e;

	load(&paths, at("old"), at("old"));
	OK(take(&paths, &rv, &e) == 0 && rendezvous_listen(&rv, &e) == 0);
	rendezvous_leave(&rv); /* as if it was killed: nothing is cleaned up */
	OK(!rendezvous_held(&paths, &note));
	OK(take(&paths, &rv, &e) == 0);
	OK(rendezvous_held(&paths, &note) && note.pid == 0);
	rendezvous_leave(&rv);
}

int main(void)
{
	char deep[128];

	umask(077);
	scratch_begin();
	memset(deep, 'd', sizeof(deep) - 1);
	deep[sizeof(deep) - 1] = 0;
	test_notes();
	test_one_daemon(at("state"), at("state"));
	test_one_daemon(at("state2"), at("run"));
	test_one_daemon(at("%s", deep), at("%s", deep)); /* longer than a socket's path may be */
	test_old_note();
	scratch_end();
	return tap_done();
}
