/* list.c - lists a directory, a piece at a time. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "moat-guest/files/files.h"
#include "util/auto.h"

struct listing {
	struct job job;
	DIR *dir;          /* NULL: the path is no directory; its one entry is in `waiting` */
	struct user *user; /* names are looked up with that user's permissions */
	uint8_t waiting[WIRE_ENTRY_MAX]; /* an entry that did not fit into the last piece */
	size_t n_waiting, sent_of_waiting;
	uint64_t entries;
	bool at_end;
	int error;
};

static size_t put(
	const char *name, const char *target, const struct stat *st, uint8_t out[WIRE_ENTRY_MAX])
{
	struct wire_entry entry = {.mode = st->st_mode,
		.size = (uint64_t)st->st_size,
		.mtime = st->st_mtime,
		.name = name,
		.target = target};
	size_t n = wire_put_entry(&entry, out);

	if (n)
		return n;
	entry.target = ""; /* only a very odd file system gets here */
	return wire_put_entry(&entry, out);
}

/* Puts the next entry into `waiting`; false at the end. */
static bool next_entry(struct listing *l)
{
	struct dirent *d;

	while ((errno = 0, d = readdir(l->dir))) {
		char target[4096] = "";
		struct stat st;
		ssize_t n;

		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		if (fstatat(dirfd(l->dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
			if (errno == ENOENT)
				continue; /* it was removed just now */
			/* the user may read the directory but not search it */
			st = (struct stat){.st_mode = (mode_t)DTTOIF(d->d_type)};
		}
		if (S_ISLNK(st.st_mode)) {
			n = readlinkat(dirfd(l->dir), d->d_name, target, sizeof(target) - 1);
			target[n > 0 ? n : 0] = 0;
		}
		l->n_waiting = put(d->d_name, target, &st, l->waiting);
		l->sent_of_waiting = 0;
		if (l->n_waiting) {
			l->entries++;
			return true;
		}
	}
	l->error = errno;
	return false;
}

/* Entries may be cut anywhere: the window may have less room than one takes. */
static size_t fill(struct listing *l, uint8_t *out, size_t max)
{
	size_t used = 0;

	while (used < max) {
		size_t left = l->n_waiting - l->sent_of_waiting;
		size_t n = left < max - used ? left : max - used;

		memcpy(out + used, l->waiting + l->sent_of_waiting, n);
		l->sent_of_waiting += n;
		used += n;
		if (n == left && (!l->dir || !next_entry(l))) {
			l->n_waiting = l->sent_of_waiting = 0;
			l->at_end = true;
			break;
		}
	}
	return used;
}

static void listing_release(struct job *job)
{
	struct listing *l = (struct listing *)job;

	if (l->dir)
		closedir(l->dir);
	free(l->user);
}

static void listing_finish(struct listing *l, int error)
{
	struct file_done done = {
		.id = l->job.id, .error = error, .size = l->entries, .what = "list"};

	file_done(l->job.runner, &done);
	listing_release(&l->job);
	job_close(&l->job);
}

static bool listing_send_some(struct job *job)
{
	struct listing *l = (struct listing *)job;
	struct wire_msg m = {.type = WIRE_DATA, .id = job->id, .stream = WIRE_BODY};
	size_t max = job->credit < WIRE_PIECE ? job->credit : WIRE_PIECE, n = 0;
	uint8_t *place = uplink_begin(&job->runner->uplink, &m, max);
	int error;

	if (!place)
		return false;
	error = user_fs_enter(l->user);
	if (!error) {
		n = fill(l, place, max);
		user_fs_leave(l->user);
	}
	uplink_end(&job->runner->uplink, n);
	job->credit -= (uint32_t)n;
	if (error || l->at_end) {
		listing_finish(l, error ? error : l->error);
		return false;
	}
	return true;
}

static void listing_cancel(struct job *job)
{
	listing_finish((struct listing *)job, ECANCELED);
}

static const struct job_ops listing_ops = {
	.send_some = listing_send_some,
	.credited = job_wants_to_send,
	.cancel = listing_cancel,
	.release = listing_release,
};

/* Opens the directory, or says what else is there. Call it as the user. */
static int look(const char *path, DIR **ret_dir, struct stat *ret)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOTDIR && stat(path, ret) == 0 ? 0 : errno;
	*ret_dir = fdopendir(fd);
	if (*ret_dir)
		return 0;
	close(fd);
	return ENOMEM;
}

int file_list(const struct file_request *req)
{
	auto_free struct user *user = malloc(sizeof(*user));
	auto_dir DIR *dir = NULL;
	struct listing *l;
	struct stat st;
	int error;

	if (!user)
		return ENOMEM;
	*user = req->user;
	error = user_fs_enter(user);
	if (error)
		return error;
	error = look(req->path, &dir, &st);
	user_fs_leave(user);
	if (error)
		return error;
	l = (struct listing *)job_new(req->runner, req->msg->id, sizeof(*l), &listing_ops);
	if (!l)
		return errno;
	if (!dir) {
		l->n_waiting = put("", "", &st, l->waiting);
		l->entries = 1;
	}
	l->dir = take_ptr(&dir);
	l->user = take_ptr(&user);
	job_wants_to_send(&l->job);
	return 0;
}
