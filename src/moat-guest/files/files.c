#include "moat-guest/files/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/auto.h"

enum { MODE_BITS = 07777, MODE_DIRECTORY = 0755, MODE_FILE = 0644 };

struct reading {
	struct job job;
	int fd;
	uint64_t sent, max;
	uint64_t count; /* how much is wanted; 0: all */
	uint32_t mode;
	char path[256]; /* for messages */
};

struct writing {
	struct job job;
	int fd;
	uint64_t size;
	char path[256];
};

void file_done(struct runner *r, const struct file_done *done)
{
	struct wire_msg m = {.type = WIRE_DONE,
		.id = done->id,
		.code = (uint32_t)done->error,
		.size = done->size,
		.mode = done->mode};
	char text[300] = "";

	if (done->error)
		snprintf(text, sizeof(text), "%.200s: %s", done->what, strerror(done->error));
	uplink_send(&r->uplink, &m, text, strlen(text));
}

/* Opening a FIFO must not hang the runner, nor a terminal become its controlling one. */
static int open_as(const struct user *u, const char *path, int flags)
{
	int error = user_fs_enter(u), fd;

	if (error) {
		errno = error;
		return -1;
	}
	fd = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, MODE_FILE);
	user_fs_leave(u);
	return fd;
}

static void reading_release(struct job *job)
{
	close(((struct reading *)job)->fd);
}

static void reading_finish(struct reading *rd, int error)
{
	struct file_done done = {.id = rd->job.id,
		.error = error,
		.size = rd->sent,
		.mode = rd->mode,
		.what = rd->path};

	file_done(rd->job.runner, &done);
	reading_release(&rd->job);
	job_close(&rd->job);
}

static bool reading_send_some(struct job *job)
{
	struct reading *rd = (struct reading *)job;
	struct wire_msg m = {.type = WIRE_DATA, .id = job->id, .stream = WIRE_BODY};
	size_t want = job->credit < WIRE_PIECE ? job->credit : WIRE_PIECE;
	uint8_t *place;
	ssize_t n;

	if (rd->count && want > rd->count - rd->sent)
		want = (size_t)(rd->count - rd->sent);
	place = uplink_begin(&job->runner->uplink, &m, want);
	if (!place)
		return false;
	n = read(rd->fd, place, want);
	/* A file in /proc has no size to go by, and any file may grow. */
	if (n > 0 && rd->max && rd->sent + (uint64_t)n > rd->max) {
		n = -1;
		errno = EFBIG;
	}
	uplink_end(&job->runner->uplink, n > 0 ? (size_t)n : 0);
	if (n <= 0) {
		reading_finish(rd, n < 0 ? errno : 0);
		return false;
	}
	rd->sent += (uint64_t)n;
	job->credit -= (uint32_t)n;
	if (rd->sent == rd->count)
		reading_finish(rd, 0);
	return rd->sent != rd->count;
}

static void reading_cancel(struct job *job)
{
	reading_finish((struct reading *)job, ECANCELED);
}

static const struct job_ops reading_ops = {
	.send_some = reading_send_some,
	.credited = job_wants_to_send,
	.cancel = reading_cancel,
	.release = reading_release,
};

int file_read(const struct file_request *req)
{
	auto_fd int fd = open_as(&req->user, req->path, O_RDONLY);
	uint64_t max = req->msg->max;
	struct reading *rd;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return errno;
	if (S_ISDIR(st.st_mode))
		return EISDIR;
	if (S_ISREG(st.st_mode) && max && (uint64_t)st.st_size > max)
		return EFBIG;
	if (req->msg->size && lseek(fd, (off_t)req->msg->size, SEEK_SET) < 0)
		return errno;
	rd = (struct reading *)job_new(req->runner, req->msg->id, sizeof(*rd), &reading_ops);
	if (!rd)
		return errno;
	rd->fd = take_fd(&fd);
	rd->max = max;
	rd->count = req->msg->size2;
	rd->mode = st.st_mode;
	snprintf(rd->path, sizeof(rd->path), "%.255s", req->path);
	job_wants_to_send(&rd->job);
	return 0;
}

static void writing_release(struct job *job)
{
	struct writing *wr = (struct writing *)job;

	if (wr->fd >= 0)
		close(wr->fd);
}

static void writing_finish(struct writing *wr, int error)
{
	struct file_done done = {.id = wr->job.id, .size = wr->size, .what = wr->path};
	struct stat st;

	if (fstat(wr->fd, &st) == 0)
		done.mode = st.st_mode;
	/* Some file systems say only now that there was no space. */
	if (close(wr->fd) < 0 && !error && errno != EINTR)
		error = errno;
	wr->fd = -1;
	done.error = error;
	file_done(wr->job.runner, &done);
	job_close(&wr->job);
}

static void writing_data(struct job *job, const uint8_t *p, size_t len)
{
	struct writing *wr = (struct writing *)job;

	for (size_t at = 0; at < len;) {
		ssize_t n = write(wr->fd, p + at, len - at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) { /* the answer may come before the host has sent everything */
			writing_finish(wr, n < 0 ? errno : EIO);
			return;
		}
		at += (size_t)n;
		wr->size += (uint64_t)n;
	}
	job_consume(job, len, true);
}

static void writing_eof(struct job *job)
{
	writing_finish((struct writing *)job, 0);
}

static void writing_cancel(struct job *job)
{
	writing_finish((struct writing *)job, ECANCELED);
}

static const struct job_ops writing_ops = {
	.data = writing_data,
	.eof = writing_eof,
	.cancel = writing_cancel,
	.release = writing_release,
};

/* Makes the directories before the last slash, as mkdir -p does. Call it as the user. */
static int make_parents(const char *path)
{
	char prefix[4096];

	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		if (!slash[strspn(slash, "/")])
			break; /* only slashes follow: what is before them is the path itself */
		memcpy(prefix, path, (size_t)(slash - path));
		prefix[slash - path] = 0;
		if (mkdir(prefix, MODE_DIRECTORY) < 0 && errno != EEXIST)
			return errno;
	}
	return 0;
}

static int make_parents_as(const struct user *u, const char *path)
{
	int error = user_fs_enter(u);

	if (!error) {
		error = make_parents(path);
		user_fs_leave(u);
	}
	return error;
}

static int set_mode(const struct user *u, int fd, uint32_t mode)
{
	int error = user_fs_enter(u);

	if (!error) {
		error = fchmod(fd, mode & MODE_BITS) < 0 ? errno : 0;
		user_fs_leave(u);
	}
	return error;
}

int file_write(const struct file_request *req)
{
	const struct wire_msg *m = req->msg;
	int flags = O_WRONLY | O_CREAT | (m->flags & WIRE_WRITE_APPEND ? O_APPEND : O_TRUNC);
	auto_fd int fd = open_as(&req->user, req->path, flags);
	struct writing *wr;
	int error = 0;

	if (fd < 0 && errno == ENOENT && (m->flags & WIRE_WRITE_PARENTS)) {
		error = make_parents_as(&req->user, req->path);
		if (error)
			return error;
		fd = open_as(&req->user, req->path, flags);
	}
	if (fd < 0)
		return errno;
	if (m->mode)
		error = set_mode(&req->user, fd, m->mode);
	/* A user may have the right to write a file but not to change its mode: then the mode
	 * stays. */
	if (error && error != EPERM)
		return error;
	wr = (struct writing *)job_new(req->runner, m->id, sizeof(*wr), &writing_ops);
	if (!wr)
		return errno;
	wr->fd = take_fd(&fd);
	snprintf(wr->path, sizeof(wr->path), "%.255s", req->path);
	return 0;
}

/* Makes parents too, as mkdir -p does. A directory that exists stays as it is. */
static int make_directory(const struct file_request *req)
{
	uint32_t mode = req->msg->mode & MODE_BITS;
	struct stat st;
	int error = make_parents(req->path);

	if (error)
		return error;
	if (mkdir(req->path, mode ? mode : (mode_t)MODE_DIRECTORY) < 0) {
		error = errno;
		return error == EEXIST && stat(req->path, &st) == 0 && S_ISDIR(st.st_mode) ? 0
											   : error;
	}
	return mode && chmod(req->path, mode) < 0 ? errno : 0; /* mkdir(2) has applied the umask */
}

/* MKDIR and SYMLINK, which need no job. */
static int make_node(const struct file_request *req)
{
	int error = user_fs_enter(&req->user);

	if (error)
		return error;
	if (req->msg->type == WIRE_MKDIR)
		error = make_directory(req);
	else
		error = symlink(req->target, req->path) < 0 ? errno : 0;
	user_fs_leave(&req->user);
	if (!error)
		file_done(req->runner, &(struct file_done){.id = req->msg->id});
	return error;
}

/* A missing user must not look like a missing file: the error is not ENOENT. */
static bool refuse_user(struct runner *r, uint32_t id, int error, const char *who)
{
	struct wire_msg m = {.type = WIRE_DONE, .id = id};
	char text[300];

	m.code = (uint32_t)(error == ENOENT ? EINVAL : error);
	if (error == ENOENT)
		snprintf(text, sizeof(text), "no such user: %.200s", who);
	else
		snprintf(text, sizeof(text), "user %.200s: %s", who, strerror(error));
	uplink_send(&r->uplink, &m, text, strlen(text));
	return true;
}

bool file_handle(struct runner *r, const struct wire_msg *m, const struct frame *f)
{
	struct file_request req = {.runner = r, .msg = m};
	const uint8_t *at = f->body;
	size_t left = f->body_len;
	const char *who = wire_next_string(&at, &left);
	const char *cwd = who ? wire_next_string(&at, &left) : NULL;
	const char *path = cwd ? wire_next_string(&at, &left) : NULL;
	int error;

	if (path && m->type == WIRE_SYMLINK)
		req.target = wire_next_string(&at, &left);
	if (!path || left || (m->type == WIRE_SYMLINK && !req.target))
		return false;
	error = user_find(who, &req.user);
	if (error)
		return refuse_user(r, m->id, error, who);
	error = user_path(&req.user, cwd, path, req.path, sizeof(req.path));
	if (!error)
		error = m->type == WIRE_READ    ? file_read(&req)
			: m->type == WIRE_WRITE ? file_write(&req)
			: m->type == WIRE_LIST  ? file_list(&req)
						: make_node(&req);
	if (error)
		file_done(r, &(struct file_done){.id = m->id, .error = error, .what = path});
	return true;
}
