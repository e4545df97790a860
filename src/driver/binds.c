#include "driver/binds.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/disk/cpio.h"
#include "util/auto.h"
#include "util/str.h"
#include "util/system/io.h"

enum { DEPTH_MAX = 64 };

struct packer {
	struct buf *archive;
	size_t room;
	unsigned files, depth;
	uint32_t inode;
	char target[PATH_MAX]; /* of a link; here, for threads have small stacks */
};

static int pack(struct packer *p, int dir, const char *name, const char *to, struct err *e);

static int too_much(struct err *e)
{
	return err_set(e, ERR_LIMIT, "more than %d MiB or %d files: put them into the image",
		BINDS_BYTES_MAX >> 20, BINDS_FILES_MAX);
}

static int put(struct packer *p, const char *to, mode_t mode, time_t mtime, struct bytes content,
	struct err *e)
{
	cpio_put(p->archive, &(struct cpio_entry){.path = to + 1,
				     .mode = mode,
				     .mtime = (uint32_t)mtime,
				     .inode = ++p->inode,
				     .content = content});
	return buf_check(p->archive, e);
}

static int pack_file(struct packer *p, int fd, const char *to, const struct stat *st, struct err *e)
{
	auto_buf struct buf content = {0};

	if (file_read_all(fd, p->room, &content, e) < 0)
		return e->kind == ERR_LIMIT ? too_much(e) : -1;
	if (content.len > p->room)
		return too_much(e);
	p->room -= content.len;
	return put(p, to, S_IFREG | (st->st_mode & 0777), st->st_mtime, buf_bytes(&content), e);
}

static int pack_dir(struct packer *p, int fd, const char *to, const struct stat *st, struct err *e)
{
	int again = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	auto_dir DIR *dir = again < 0 ? NULL : fdopendir(again);
	struct dirent *entry;

	if (!dir) {
		if (again >= 0)
			close(again);
		return err_sys(e, errno, "directory");
	}
	if (put(p, to, S_IFDIR | (st->st_mode & 0777), st->st_mtime, (struct bytes){0}, e) < 0)
		return -1;
	if (p->depth++ == DEPTH_MAX)
		return err_set(e, ERR_LIMIT, "more than %d directories deep", DEPTH_MAX);
	while ((entry = readdir(dir))) {
		auto_free char *below = NULL;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (str_printf(&below, e, "%s/%s", to, entry->d_name) < 0 ||
			pack(p, fd, entry->d_name, below, e) < 0)
			return err_wrap(e, "%s", entry->d_name);
	}
	p->depth--;
	return 0;
}

/* A link stays a link; sockets and the like are left out. */
static int pack(struct packer *p, int dir, const char *name, const char *to, struct err *e)
{
	int follow = p->depth ? O_NOFOLLOW : 0; /* the path that was given may be a link */
	auto_fd int fd = -1;
	struct stat st;
	ssize_t len;

	if (++p->files > BINDS_FILES_MAX)
		return too_much(e);
	if (fstatat(dir, name, &st, follow ? AT_SYMLINK_NOFOLLOW : 0) < 0)
		return err_sys(e, errno, "stat");
	if (S_ISLNK(st.st_mode)) {
		len = readlinkat(dir, name, p->target, sizeof(p->target));
		if (len < 0)
			return err_sys(e, errno, "link");
		return put(p, to, S_IFLNK | 0777, st.st_mtime,
			(struct bytes){(uint8_t *)p->target, (size_t)len}, e);
	}
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return 0;
	fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | follow);
	if (fd < 0)
		return err_sys(e, errno, "open");
	return S_ISDIR(st.st_mode) ? pack_dir(p, fd, to, &st, e) : pack_file(p, fd, to, &st, e);
}

int binds_pack(const struct service_spec *s, struct buf *ret, struct err *e)
{
	for (size_t i = 0; i < s->n_binds; i++) {
		struct packer p = {.archive = ret, .room = BINDS_BYTES_MAX};

		if (pack(&p, AT_FDCWD, s->binds[i].host, s->binds[i].path, e) < 0)
			return err_wrap(e, "service.binds[%zu]: %s", i, s->binds[i].host);
	}
	return 0;
}
