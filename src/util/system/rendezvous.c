#include "util/system/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/str.h"

#define LOCK_AGAIN 0.05

/*
 * The address of a socket. The kernel allows 107 bytes for its path; a longer one is reached
 * through its directory, which is opened as *ret_dir.
 */
static int make_address(const char *path, struct sockaddr_un *ret, int *ret_dir)
{
	const char *name = strrchr(path, '/');
	auto_free char *dir = NULL;

	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (strlen(path) < sizeof(ret->sun_path)) {
		memcpy(ret->sun_path, path, strlen(path));
		return 0;
	}
	dir = strndup(path, (size_t)(name - path));
	if (!dir)
		return -1;
	*ret_dir = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (*ret_dir < 0)
		return -1;
	snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d%s", *ret_dir, name);
	return 0;
}

int rendezvous_connect(int fd, const char *path)
{
	struct sockaddr_un addr;
	auto_fd int dir = -1;

	if (make_address(path, &addr, &dir) < 0)
		return -1;
	return connect(fd, (struct sockaddr *)&addr, sizeof(addr));
}

static bool is_served(const char *path)
{
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd >= 0 && (rendezvous_connect(fd, path) == 0 || errno == EAGAIN);
}

bool rendezvous_parse_note(const char *text, struct rendezvous_note *ret)
{
	struct rendezvous_note n = {0};
	size_t len = strlen(text);
	int at = 0;

	if (sscanf(text, "%ld %63s %n", &n.pid, n.host, &at) != 2 || n.pid <= 0)
		return false;
	/* A path that does not end with a newline has not been written to its end. */
	if (text[at] != '/' || text[len - 1] != '\n' || len - 1 - (size_t)at >= sizeof(n.socket))
		return false;
	memcpy(n.socket, text + at, len - 1 - (size_t)at);
	*ret = n;
	return true;
}

static void get_host(char name[64])
{
	if (gethostname(name, 64) < 0 || !*name)
		snprintf(name, 64, "localhost");
	name[63] = 0;
}

/* Reads the note of a lock that somebody holds. */
static void read_note(int lock_fd, struct rendezvous_note *ret)
{
	char text[PATH_MAX + 128], host[64];
	ssize_t n = pread(lock_fd, text, sizeof(text) - 1, 0);

	*ret = (struct rendezvous_note){0};
	if (n <= 0)
		return;
	text[n] = 0;
	get_host(host);
	if (rendezvous_parse_note(text, ret))
		ret->here = strcmp(ret->host, host) == 0;
}

static int write_note(const struct rendezvous *p, struct err *e)
{
	auto_free char *text = NULL;
	char host[64];

	get_host(host);
	if (str_printf(&text, e, "%ld %s %s\n", (long)getpid(), host, p->paths->socket) < 0)
		return -1;
	if (ftruncate(p->state_lock, 0) < 0 ||
		pwrite(p->state_lock, text, strlen(text), 0) != (ssize_t)strlen(text))
		return err_sys(e, errno, "%s/daemon.lock", p->paths->state);
	return 0;
}

static int open_lock(const char *dir, int *ret_fd, struct err *e)
{
	auto_free char *path = NULL;

	if (str_printf(&path, e, "%s/daemon.lock", dir) < 0)
		return -1;
	*ret_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	return *ret_fd < 0 ? err_sys(e, errno, "%s", path) : 0;
}

bool rendezvous_held(const struct paths *paths, struct rendezvous_note *ret)
{
	auto_free char *path = NULL;
	auto_fd int fd = -1;
	struct err ignored;

	if (str_printf(&path, &ignored, "%s/daemon.lock", paths->state) < 0)
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	/* If we get the lock nobody has it; closing the file gives it back. */
	if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK)
		return false;
	read_note(fd, ret);
	return true;
}

static bool same_file(int a, int b)
{
	struct stat one, other;

	return fstat(a, &one) == 0 && fstat(b, &other) == 0 && one.st_dev == other.st_dev &&
	       one.st_ino == other.st_ino;
}

static int take_lock(
	const struct op *op, const struct paths *paths, const char *dir, int fd, struct err *e)
{
	struct rendezvous_note note;

	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_sys(e, errno, "%s/daemon.lock", dir);
		read_note(fd, &note);
		if (note.pid && !note.here)
			return err_set(e, ERR_BUSY,
				"another daemon is using %s: pid %ld on the host %s", dir, note.pid,
				note.host);
		if (is_served(paths->socket) || (note.pid && is_served(note.socket)) ||
			op_pause(op, LOCK_AGAIN, e) < 0)
			return err_set(e, ERR_BUSY, "another daemon is using %s", dir);
	}
	return 0;
}

int rendezvous_take(
	const struct op *op, const struct paths *paths, struct rendezvous *ret, struct err *e)
{
	auto_fd int state = -1, runtime = -1;

	if (open_lock(paths->state, &state, e) < 0 ||
		take_lock(op, paths, paths->state, state, e) < 0)
		return -1;
	/* A killed daemon has left its note, which must not be taken for ours. */
	if (ftruncate(state, 0) < 0)
		return err_sys(e, errno, "%s/daemon.lock", paths->state);
	if (open_lock(paths->runtime, &runtime, e) < 0)
		return -1;
	if (!same_file(state, runtime)) {
		if (take_lock(op, paths, paths->runtime, runtime, e) < 0)
			return -1;
		ret->runtime_lock = take_fd(&runtime);
	}
	ret->state_lock = take_fd(&state);
	ret->paths = paths;
	return 0;
}

int rendezvous_listen(struct rendezvous *p, struct err *e)
{
	const char *path = p->paths->socket;
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	auto_fd int dir = -1;
	struct sockaddr_un addr;

	if (fd < 0)
		return err_sys(e, errno, "socket");
	/* We hold the lock of this directory: no other daemon uses a socket in here. */
	if (unlink(path) < 0 && errno != ENOENT)
		return err_sys(e, errno, "%s", path);
	if (make_address(path, &addr, &dir) < 0 ||
		bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 || chmod(path, 0600) < 0 ||
		listen(fd, 128) < 0)
		return err_sys(e, errno, "%s", path);
	if (write_note(p, e) < 0)
		return -1;
	if (p->listener >= 0)
		close(p->listener);
	p->listener = take_fd(&fd);
	return 0;
}

/* Takes a lock again whose file was removed and perhaps made anew. */
static int lock_again(const char *dir, int *fd, struct err *e)
{
	auto_fd int now = -1;

	if (open_lock(dir, &now, e) < 0)
		return -1;
	if (same_file(now, *fd))
		return 0;
	if (flock(now, LOCK_EX | LOCK_NB) < 0)
		return err_set(e, ERR_BUSY, "another daemon is using %s", dir);
	close(*fd);
	*fd = take_fd(&now);
	return 0;
}

int rendezvous_keep(struct rendezvous *p, struct err *e)
{
	struct stat st;

	if (lstat(p->paths->socket, &st) == 0 || errno != ENOENT)
		return 0;
	if (paths_make(p->paths, e) < 0 || lock_again(p->paths->state, &p->state_lock, e) < 0)
		return -1;
	if (p->runtime_lock >= 0 && lock_again(p->paths->runtime, &p->runtime_lock, e) < 0)
		return -1;
	return rendezvous_listen(p, e) < 0 ? -1 : 1;
}

void rendezvous_stop_listening(struct rendezvous *p)
{
	unlink(p->paths->socket);
	close(take_fd(&p->listener));
	if (ftruncate(p->state_lock, 0) < 0)
		return; /* the note stays, but nobody answers at its socket */
}

void rendezvous_leave(struct rendezvous *p)
{
	auto_closep(&p->listener);
	auto_closep(&p->runtime_lock);
	auto_closep(&p->state_lock);
}
