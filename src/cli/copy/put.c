#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/copy/copy.h"
#include "util/auto.h"
#include "util/str.h"

enum { SMALL = 64 * 1024 }; /* files up to this size are sent inside the request */

static void count_sent(void *arg, size_t n)
{
	copy_moved(arg, n);
}

/* Reads a small file without moving its offset; 0 if it is larger than SMALL. */
static int read_small(int fd, uint8_t **ret, size_t *ret_len, struct err *e)
{
	auto_free uint8_t *data = malloc(SMALL + 1);
	size_t len = 0;

	if (!data)
		return err_oom(e);
	while (len <= SMALL) {
		ssize_t n = pread(fd, data + len, SMALL + 1 - len, (off_t)len);

		if (n < 0)
			return err_sys(e, errno, "read");
		if (n == 0)
			break;
		len += (size_t)n;
	}
	if (len > SMALL)
		return 0;
	*ret = take_ptr(&data);
	*ret_len = len;
	return 1;
}

/* Copies the content of an open file, pipe or terminal to the file path. */
static int put_file(struct copy *c, int fd, const char *path, struct err *e)
{
	auto_json json_t *args = copy_args(c, path, e);
	auto_free uint8_t *small = NULL;
	struct call call = {.op = "write", .args = args, .sent = count_sent, .arg = c};
	struct stat st;
	int got;

	if (!args)
		return -1;
	if (fstat(fd, &st) < 0)
		return err_sys(e, errno, "%s", path);
	c->name = path;
	c->done = 0;
	c->total = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
	if (S_ISREG(st.st_mode)) {
		json_object_set_new(args, "mode", json_integer(st.st_mode & 07777));
		got = read_small(fd, &small, &call.blob.len, e);
		if (got < 0)
			return err_wrap(e, "%s", path);
		call.blob.p = small;
	}
	call.stream_input = !small;
	call.input_fd = fd;
	if (cli_call(c->cli, &call, NULL, e) < 0)
		return -1;
	c->files++;
	if (small)
		c->bytes += call.blob.len;
	return 0;
}

static int request(struct copy *c, const char *op, json_t *args, struct err *e)
{
	return args ? cli_request(c->cli, op, args, NULL, e) : -1;
}

/* Makes a directory that its owner can write into, whatever its mode is here. */
static int put_mkdir(struct copy *c, const char *path, mode_t mode, struct err *e)
{
	json_t *args = copy_args(c, path, e);

	if (args)
		json_object_set_new(args, "mode", json_integer((mode & 07777) | 0700));
	if (request(c, "mkdir", args, e) < 0)
		return -1;
	c->directories++;
	return 0;
}

/* Whether the sandbox has the same link already, from an earlier copy. */
static bool has_link(struct copy *c, const char *path, const char *target)
{
	const char *name = strrchr(path, '/') + 1;
	auto_free char *dir = strndup(path, (size_t)(name - path));
	auto_json json_t *result = NULL;
	const json_t *ent;
	struct err ignored;
	json_t *args;
	size_t i;

	args = dir ? copy_args(c, dir, &ignored) : NULL;
	if (!args || cli_request(c->cli, "list", args, &result, &ignored) < 0)
		return false;
	json_array_foreach(json_object_get(result, "entries"), i, ent)
		if (strcmp(get_str(ent, "name"), name) == 0)
			return strcmp(get_str(ent, "type"), "link") == 0 &&
			       strcmp(get_str(ent, "target"), target) == 0;
	return false;
}

/* path comes from copy_join, so it contains a slash. */
static int put_link(struct copy *c, int dir_fd, const char *name, const char *path, struct err *e)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(dir_fd, name, target, sizeof(target) - 1);
	json_t *args;

	if (n < 0)
		return err_sys(e, errno, "%s", name);
	target[n] = 0;
	args = copy_args(c, path, e);
	if (args && json_object_set_new(args, "target", json_string(target)) < 0) {
		json_decref(args);
		return err_set(e, ERR_INVALID, "%s: its target is not UTF-8", name);
	}
	if (request(c, "symlink", args, e) < 0 && (e->sys != EEXIST || !has_link(c, path, target)))
		return -1;
	c->links++;
	return 0;
}

static int put_tree(struct copy *c, int dir_fd, const char *path, unsigned depth, struct err *e);

static int put_entry(struct copy *c, int dir_fd, const char *name, const char *path, unsigned depth,
	struct err *e)
{
	auto_fd int fd = -1;
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, errno, "%s", name);
	if (S_ISLNK(st.st_mode))
		return put_link(c, dir_fd, name, path, e);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return err_set(e, ERR_UNSUPPORTED, COPY_SKIPPED);
	fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "%s", name);
	if (S_ISREG(st.st_mode))
		return put_file(c, fd, path, e);
	if (put_mkdir(c, path, st.st_mode, e) < 0)
		return -1;
	return put_tree(c, take_fd(&fd), path, depth + 1, e);
}

/* Copies the content of the directory dir_fd, which it takes, into path. */
static int put_tree(struct copy *c, int dir_fd, const char *path, unsigned depth, struct err *e)
{
	auto_dir DIR *d = fdopendir(dir_fd);
	struct dirent *ent;

	if (!d) {
		close(dir_fd);
		return err_sys(e, errno, "%s", path);
	}
	if (depth > COPY_DEPTH_MAX)
		return err_set(e, ERR_LIMIT, "%s: directories nested too deeply", path);
	while ((errno = 0, ent = readdir(d))) {
		auto_free char *below = NULL;
		struct err why;

		if (strcmp(ent->d_name, ".") == 0 || strcmp(ent->d_name, "..") == 0)
			continue;
		if (copy_interrupted(e) < 0 || copy_join(path, ent->d_name, &below, e) < 0)
			return -1;
		if (put_entry(c, dirfd(d), ent->d_name, below, depth, &why) < 0 &&
			copy_failed(c, below, &why) < 0) {
			*e = why;
			return -1;
		}
	}
	return errno ? err_sys(e, errno, "%s", path) : 0;
}

/* Returns 1 if the sandbox has a directory path (or a link to one), 0 if not. */
static int is_remote_dir(struct copy *c, const char *path, struct err *e)
{
	auto_free char *inside = NULL;

	/* Listing "path/" works only for directories. */
	if (copy_join(path, "", &inside, e) < 0)
		return -1;
	if (request(c, "list", copy_args(c, inside, e), e) == 0)
		return 1;
	if (e->kind == ERR_LIMIT) /* too many entries to list, so it is a directory */
		return 1;
	return e->kind == ERR_NOT_FOUND ? 0 : -1;
}

static int put_whole_dir(struct copy *c, int fd, const char *base, struct err *e)
{
	auto_fd int dir_fd = fd;
	auto_free char *at = NULL;
	struct stat st;
	int exists = *base ? is_remote_dir(c, c->remote->path, e) : 0;

	if (exists < 0)
		return -1;
	if ((exists ? copy_join(c->remote->path, base, &at, e) : str_dup(c->remote->path, &at, e)) <
		0)
		return -1;
	if (fstat(dir_fd, &st) < 0)
		return err_sys(e, errno, "%s", base);
	if (put_mkdir(c, at, st.st_mode, e) < 0)
		return -1;
	return put_tree(c, take_fd(&dir_fd), at, 0, e);
}

static int put_one_file(struct copy *c, int fd, const char *base, struct err *e)
{
	const char *path = c->remote->path;
	auto_free char *inside = NULL;
	bool into = str_ends(path, "/") || strcmp(path, ".") == 0;

	if (!*base) /* standard input has no name */
		return put_file(c, fd, path, e);
	if (copy_join(path, base, &inside, e) < 0)
		return -1;
	if (into)
		return put_file(c, fd, inside, e);
	if (put_file(c, fd, path, e) == 0)
		return 0;
	/* path is a directory: copy the file into it, from the beginning again. That fails for a
	 * pipe, which cannot be rewound. */
	if (e->kind != ERR_IS_DIR || lseek(fd, 0, SEEK_SET) < 0)
		return -1;
	c->bytes = 0;
	return put_file(c, fd, inside, e);
}

int copy_put(struct copy *c, const char *from, struct err *e)
{
	auto_free char *base = NULL;
	auto_fd int fd = -1;
	struct stat st;

	if (strcmp(from, "-") == 0)
		return put_one_file(c, STDIN_FILENO, "", e);
	fd = open(from, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return err_sys(e, errno, "%s", from);
	if (fstat(fd, &st) < 0)
		return err_sys(e, errno, "%s", from);
	if (copy_base(from, &base, e) < 0)
		return -1;
	if (S_ISDIR(st.st_mode))
		return put_whole_dir(c, take_fd(&fd), base, e);
	return put_one_file(c, fd, base, e);
}
