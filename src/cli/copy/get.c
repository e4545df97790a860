#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/copy/copy.h"
#include "cli/outfile.h"
#include "cli/stream.h"
#include "util/auto.h"
#include "util/str.h"

/* A file that is being received. */
struct incoming {
	struct copy *c;
	struct outfile *file; /* NULL: stdout */
	struct stream *out;   /* where it goes if file is NULL */
};

static int take_piece(void *arg, enum call_stream stream, struct bytes data, struct err *e)
{
	struct incoming *in = arg;

	copy_moved(in->c, data.len);
	if (!in->file)
		return stream_data(in->out, stream, data, e);
	/* Opened late, so that a file that cannot be read in the guest leaves nothing here. */
	if (in->file->fd < 0 && outfile_open(in->file, e) < 0)
		return -1;
	return outfile_write(in->file, data, e);
}

/* Copies a file; to stdout if file is NULL. */
static int get_file(struct copy *c, const char *path, struct outfile *file, struct err *e)
{
	auto_stream struct stream out = {.cli = c->cli};
	struct incoming in = {.c = c, .file = file, .out = &out};
	auto_json json_t *args = copy_args(c, path, e), *result = NULL;
	struct call call = {.op = "read", .args = args, .data = take_piece, .arg = &in};

	if (!args)
		return -1;
	c->name = path;
	c->done = 0;
	if (cli_call(c->cli, &call, &result, e) < 0)
		return -1;
	c->files++;
	if (!file)
		return stream_end(&out, e);
	if (file->fd < 0 && outfile_open(file, e) < 0)
		return -1;
	return outfile_finish(file, (mode_t)get_num(result, "mode"), e);
}

static int list(struct copy *c, const char *path, json_t **ret, struct err *e)
{
	json_t *args = copy_args(c, path, e);

	return args ? cli_request(c->cli, "list", args, ret, e) : -1;
}

/* An entry of a directory as the guest describes it, after check_entry. */
struct entry {
	const char *name, *type, *target;
	mode_t mode;
	uint64_t size;
};

/* Refuses names that lead out of the directory. Strings have no NUL: JSON with NUL was refused. */
static int check_entry(const json_t *j, struct entry *ret, struct err *e)
{
	ret->name = json_string_value(json_object_get(j, "name"));
	ret->type = get_str(j, "type");
	ret->target = json_string_value(json_object_get(j, "target"));
	ret->mode = (mode_t)json_integer_value(json_object_get(j, "mode")) & 0777;
	ret->size = (uint64_t)json_integer_value(json_object_get(j, "size"));
	if (!ret->name || !*ret->name || strchr(ret->name, '/') || strcmp(ret->name, ".") == 0 ||
		strcmp(ret->name, "..") == 0)
		return err_set(e, ERR_INVALID, "refused the name \"%s\" from the sandbox",
			ret->name ? ret->name : "?");
	return 0;
}

/* Makes a link. Replaces an existing link, but nothing else. */
static int make_link(int dir_fd, const struct entry *ent, struct err *e)
{
	struct stat st;

	if (!ent->target || !*ent->target)
		return err_set(e, ERR_INVALID, "%s: a link without target", ent->name);
	if (fstatat(dir_fd, ent->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
		unlinkat(dir_fd, ent->name, 0);
	if (symlinkat(ent->target, dir_fd, ent->name) < 0)
		return err_sys(e, errno, "%s", ent->name);
	return 0;
}

static int get_tree(struct copy *c, const char *path, int dir_fd, unsigned depth, struct err *e);

static int get_dir(struct copy *c, const char *path, int parent_fd, const struct entry *ent,
	unsigned depth, struct err *e)
{
	bool made = mkdirat(parent_fd, ent->name, 0700) == 0;
	auto_fd int fd = -1;

	if (!made && errno != EEXIST)
		return err_sys(e, errno, "%s", ent->name);
	fd = openat(parent_fd, ent->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "%s", ent->name);
	if (get_tree(c, path, fd, depth + 1, e) < 0)
		return -1;
	c->directories++;
	/* The mode comes last, as it may forbid writing into the directory. */
	if (made && fchmod(fd, ent->mode & ~current_umask()) < 0)
		return err_sys(e, errno, "%s", ent->name);
	return 0;
}

static int get_entry(struct copy *c, const char *path, int dir_fd, const struct entry *ent,
	unsigned depth, struct err *e)
{
	auto_outfile struct outfile file = {.dir_fd = dir_fd, .name = ent->name, .fd = -1};

	if (strcmp(ent->type, "file") == 0) {
		c->total = ent->size;
		return get_file(c, path, &file, e);
	}
	if (strcmp(ent->type, "dir") == 0)
		return get_dir(c, path, dir_fd, ent, depth, e);
	if (strcmp(ent->type, "link") == 0) {
		c->links++;
		return make_link(dir_fd, ent, e);
	}
	return err_set(e, ERR_UNSUPPORTED, COPY_SKIPPED);
}

static int get_one(struct copy *c, const char *path, int dir_fd, const struct entry *ent,
	unsigned depth, struct err *e)
{
	auto_free char *below = NULL;
	struct err why;

	if (copy_join(path, ent->name, &below, e) < 0)
		return -1;
	if (get_entry(c, below, dir_fd, ent, depth, &why) == 0 || copy_failed(c, below, &why) == 0)
		return 0;
	*e = why;
	return -1;
}

static int keep_dir(const struct copy *c, const char *path, const struct entry *ent,
	struct buf *dirs, struct err *e)
{
	size_t n = strlen(ent->name) + 1;

	if (c->waiting + dirs->len + sizeof(ent->mode) + n > COPY_WAITING_MAX)
		return err_set(e, ERR_LIMIT, "%s: too many directories", path);
	return buf_add(dirs, &ent->mode, sizeof(ent->mode), e) < 0 ? -1
								   : buf_add(dirs, ent->name, n, e);
}

/* Copies the entries of path except directories, whose modes and names are added to dirs, one after
 * the other. */
static int get_level(struct copy *c, const char *path, int dir_fd, struct buf *dirs, struct err *e)
{
	auto_json json_t *result = NULL;
	const json_t *j;
	size_t i;

	if (list(c, path, &result, e) < 0)
		return -1;
	json_array_foreach(json_object_get(result, "entries"), i, j) {
		struct entry ent;
		struct err why;

		if (copy_interrupted(e) < 0)
			return -1;
		/* A refused name does not keep the other entries from being copied. */
		if (check_entry(j, &ent, &why) < 0)
			copy_failed(c, path, &why);
		else if ((strcmp(ent.type, "dir") == 0 ? keep_dir(c, path, &ent, dirs, e)
						       : get_one(c, path, dir_fd, &ent, 0, e)) < 0)
			return -1;
	}
	return 0;
}

static int get_dirs(struct copy *c, const char *path, int dir_fd, const struct buf *dirs,
	unsigned depth, struct err *e)
{
	struct entry ent = {.type = "dir"};

	for (size_t at = 0; at < dirs->len; at += strlen(ent.name) + 1) {
		memcpy(&ent.mode, buf_data(dirs) + at, sizeof(ent.mode));
		at += sizeof(ent.mode);
		ent.name = (const char *)buf_data(dirs) + at;
		if (copy_interrupted(e) < 0 || get_one(c, path, dir_fd, &ent, depth, e) < 0)
			return -1;
	}
	return 0;
}

/*
 * Copies the content of path into the directory dir_fd. While deeper levels are copied, only the
 * names of directories are kept: a hostile guest can make the listing of every level as long as a
 * listing may be.
 */
static int get_tree(struct copy *c, const char *path, int dir_fd, unsigned depth, struct err *e)
{
	auto_buf struct buf dirs = {0};
	int rc;

	if (depth > COPY_DEPTH_MAX)
		return err_set(e, ERR_LIMIT, "%s: directories nested too deeply", path);
	if (get_level(c, path, dir_fd, &dirs, e) < 0)
		return -1;
	c->waiting += dirs.len;
	rc = get_dirs(c, path, dir_fd, &dirs, depth, e);
	c->waiting -= dirs.len;
	return rc;
}

static bool is_local_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Copies a directory: it becomes TO, or a directory inside TO if TO exists. Earlier content of TO
 * may have come from a guest, so links in there are not followed; TO itself may be a link. */
static int get_whole_dir(struct copy *c, const char *base, const char *to, struct err *e)
{
	auto_free char *at = NULL;
	auto_fd int fd = -1;
	bool into = *base && is_local_dir(to), made;

	if ((into ? copy_join(to, base, &at, e) : str_dup(to, &at, e)) < 0)
		return -1;
	made = mkdir(at, 0700) == 0;
	if (!made && errno != EEXIST)
		return err_sys(e, errno, "%s", at);
	fd = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (into ? O_NOFOLLOW : 0));
	if (fd < 0 && into && is_local_dir(at))
		return err_set(e, ERR_INVALID, "%s is a link here: not followed", at);
	if (fd < 0)
		return err_sys(e, errno, "%s", at);
	if (get_tree(c, c->remote->path, fd, 0, e) < 0) {
		if (made)
			rmdir(at); /* succeeds only if it is still empty */
		return -1;
	}
	c->directories++;
	if (made && fchmod(fd, 0777 & ~current_umask()) < 0)
		return err_sys(e, errno, "%s", at);
	return 0;
}

/* Finds the file's size, for the progress bar. Ignores failures: the copy itself will
 * report them. */
static void find_size(struct copy *c)
{
	auto_json json_t *result = NULL;
	struct err ignored;
	const json_t *first;

	if (c->cli->progress.style != PROGRESS_LIVE ||
		list(c, c->remote->path, &result, &ignored) < 0)
		return;
	first = json_array_get(json_object_get(result, "entries"), 0);
	if (*get_str(first, "name") == 0)
		c->total = (uint64_t)get_num(first, "size");
}

int copy_get(struct copy *c, const char *to, struct err *e)
{
	auto_free char *base = NULL, *at = NULL;
	auto_outfile struct outfile file = {.fd = -1, .dir_fd = AT_FDCWD};

	if (copy_base(c->remote->path, &base, e) < 0)
		return -1;
	if (strcmp(to, "-") == 0)
		return get_file(c, c->remote->path, NULL, e);
	if (!*base || str_ends(c->remote->path, "/"))
		return get_whole_dir(c, base, to, e);
	/* The content of a directory may have come from a guest. */
	file.trusted = !str_ends(to, "/") && !is_local_dir(to);
	if ((file.trusted ? str_dup(to, &at, e) : copy_join(to, base, &at, e)) < 0)
		return -1;
	file.name = at;
	find_size(c);
	if (get_file(c, c->remote->path, &file, e) == 0)
		return 0;
	if (e->kind != ERR_IS_DIR || file.fd >= 0)
		return -1;
	return get_whole_dir(c, base, to, e);
}
