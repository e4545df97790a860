#include "cli/client/start.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/system/io.h"
#include "util/system/rendezvous.h"
#include "util/str.h"

enum {
	READY_AS = 3, /* the ready pipe's number in the daemon */
	READY_TEXT_MAX = 4096,
	LOG_MAX = 8 * 1024 * 1024, /* a larger log is renamed before a new daemon starts */
};
#define LOCK_WAIT  0.02
#define READY_WAIT 60.0

extern char **environ;

static int check_peer(int fd, const char *path, struct err *e)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return err_sys(e, errno, "%s", path);
	if (peer.uid != getuid() && peer.uid != 0)
		return err_set(e, ERR_PERMISSION, "%s is served by another user (uid %u)", path,
			(unsigned)peer.uid);
	return 0;
}

static int connect_to(const struct op *op, const char *path, int *ret_fd, struct err *e)
{
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return err_sys(e, errno, "socket");
	while (rendezvous_connect(fd, path) < 0) {
		if (errno == ENOENT || errno == ECONNREFUSED)
			return err_set(e, ERR_UNAVAILABLE, "no daemon is running");
		if (errno != EAGAIN && errno != EINTR)
			return err_sys(e, errno, "%s", path);
		/* The daemon has not accepted earlier connections yet: try again. */
		if (op_pause(op, LOCK_WAIT, e) < 0)
			return err_wrap(e, "the daemon does not answer");
	}
	if (check_peer(fd, path, e) < 0)
		return -1;
	*ret_fd = take_fd(&fd);
	return 0;
}

int daemon_connect(const struct op *op, const struct paths *paths, int *ret_fd, struct err *e)
{
	struct rendezvous_note note;

	if (connect_to(op, paths->socket, ret_fd, e) == 0)
		return 0;
	if (e->kind != ERR_UNAVAILABLE || !rendezvous_held(paths, &note) || !note.here)
		return -1;
	/* The daemon of our state directory was started with another MOAT_RUNTIME_DIR. */
	return connect_to(op, note.socket, ret_fd, e);
}

static int take_start_lock(
	const struct op *op, const struct paths *paths, int *ret_fd, struct err *e)
{
	auto_free char *path = NULL;
	auto_fd int fd = -1;

	if (str_printf(&path, e, "%s/start.lock", paths->state) < 0)
		return -1;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_sys(e, errno, "%s", path);
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_sys(e, errno, "%s", path);
		if (op_pause(op, LOCK_WAIT, e) < 0)
			return err_wrap(e, "another process is starting the daemon");
	}
	*ret_fd = take_fd(&fd);
	return 0;
}

static int open_log(const struct paths *paths, char **ret_path, int *ret_fd, struct err *e)
{
	auto_free char *path = NULL, *old = NULL;
	struct stat st;
	int fd;

	if (str_printf(&path, e, "%s/daemon.log", paths->state) < 0 ||
		str_printf(&old, e, "%s.old", path) < 0)
		return -1;
	if (stat(path, &st) == 0 && st.st_size > LOG_MAX && rename(path, old) < 0)
		return err_sys(e, errno, "%s", path);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_sys(e, errno, "%s", path);
	*ret_path = take_ptr(&path);
	*ret_fd = fd;
	return 0;
}

/* The daemon gets a session of its own, the log as its output, and no other file of ours. */
static int spawn_daemon(int log_fd, int ready_fd, bool any_config, pid_t *ret, struct err *e)
{
	const char *argv[] = {"moat", "serve", "--foreground", "--ready-fd", "3",
		any_config ? "--any-config" : NULL, NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int rc;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawnattr_setflags(
		&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	rc = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	rc = rc ? rc : posix_spawn_file_actions_adddup2(&actions, log_fd, 1);
	rc = rc ? rc : posix_spawn_file_actions_adddup2(&actions, log_fd, 2);
	rc = rc ? rc : posix_spawn_file_actions_adddup2(&actions, ready_fd, READY_AS);
	rc = rc ? rc : posix_spawn_file_actions_addclosefrom_np(&actions, READY_AS + 1);
	rc = rc ? rc : posix_spawn_file_actions_addchdir_np(&actions, "/");
	rc = rc ? rc
		: posix_spawn(ret, "/proc/self/exe", &actions, &attr, (char *const *)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	return rc ? err_sys(e, rc, "cannot start the daemon") : 0;
}

/* Fails with the reason why the daemon is not ready: what it wrote, or its log's last line. */
static int fail_to_start(pid_t pid, const char *said, const char *log_path, struct err *e)
{
	auto_free char *tail = file_tail(log_path, 1024);
	const char *last = "";
	int status = 0;

	if (*said)
		return err_set(e, ERR_UNAVAILABLE, "the daemon did not start: %s", said);
	while (tail && *tail && tail[strlen(tail) - 1] == '\n')
		tail[strlen(tail) - 1] = 0;
	if (tail && *tail)
		last = strrchr(tail, '\n') ? strrchr(tail, '\n') + 1 : tail;
	if (waitpid(pid, &status, WNOHANG) == pid && WIFSIGNALED(status))
		return err_set(e, ERR_UNAVAILABLE,
			"the daemon was killed by signal %d while it started; see %s",
			WTERMSIG(status), log_path);
	return err_set(e, ERR_UNAVAILABLE,
		"the daemon ended before it was ready; see %s\nthe last line of that log: %s",
		log_path, last);
}

static bool is_ready(const struct buf *said)
{
	size_t len = strlen(DAEMON_READY);

	return said->len == len && memcmp(buf_data(said), DAEMON_READY, len) == 0;
}

static int wait_ready(const struct op *op, int fd, pid_t pid, const char *log_path, struct err *e)
{
	struct op part = op_within(op, READY_WAIT);
	auto_buf struct buf said = {0};
	auto_free char *text = NULL;
	ssize_t got;

	do {
		got = io_fill(&part, &said, fd, 1024, e);
		if (got < 0 && e->kind == ERR_TIMEOUT)
			return err_set(e, ERR_UNAVAILABLE,
				"the daemon (pid %d) is not ready after %.0f seconds; see %s",
				(int)pid, READY_WAIT, log_path);
		if (got < 0)
			return -1;
		if (is_ready(&said))
			return 0;
	} while (got > 0 && said.len < READY_TEXT_MAX);
	text = buf_take_str(&said);
	if (!text)
		return err_oom(e);
	return fail_to_start(pid, text, log_path, e);
}

int daemon_start(const struct op *op, const struct paths *paths, bool any_config, struct err *e)
{
	auto_fd int lock_fd = -1, running = -1, log_fd = -1;
	auto_free char *log_path = NULL;
	struct err ignored;
	int ready[2], failed;
	pid_t pid;

	if (paths_make(paths, e) < 0 || take_start_lock(op, paths, &lock_fd, e) < 0)
		return -1;
	if (daemon_connect(op, paths, &running, e) == 0)
		return 0;
	if (e->kind != ERR_UNAVAILABLE)
		return -1;
	if (open_log(paths, &log_path, &log_fd, e) < 0)
		return -1;
	if (pipe2(ready, O_CLOEXEC) < 0)
		return err_sys(e, errno, "pipe");
	failed = spawn_daemon(log_fd, ready[1], any_config, &pid, e) < 0;
	close(ready[1]);
	if (!failed)
		failed = wait_ready(op, ready[0], pid, log_path, e) < 0;
	close(ready[0]);
	/* Another client may have started a daemon and been killed: if one runs, use that. */
	if (failed && daemon_connect(op, paths, &running, &ignored) == 0)
		return 0;
	return failed ? -1 : 0;
}
