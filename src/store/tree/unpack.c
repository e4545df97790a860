/*
 * How it works: one walk over the directories, with libext2fs. The file system may be hostile: a
 * name that is no plain name is refused, every file is made new (O_EXCL) in a directory that is
 * open, and no link is followed. So nothing is written anywhere else.
 */
#include "store/tree/unpack.h"

#include <errno.h>
#include <ext2fs/ext2fs.h>
#include <fcntl.h>
#include <limits.h>
#include <search.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "util/auto.h"
#include "util/str.h"

enum { DEPTH_MAX = 128, PART = 1 << 20 };

/* The first name of a file that has several. */
struct seen {
	ext2_ino_t ino;
	char *path;
};

struct unpack {
	ext2_filsys fs;
	int to_fd;
	void *seen; /* tree of struct seen */
	char path[PATH_MAX];
	unsigned depth;
	char *part; /* PART bytes */
	struct err *e;
	bool failed;
};

/* A directory that is being walked. */
struct walk {
	struct unpack *u;
	int fd;
};

static int fail_ext2(errcode_t rc, const struct unpack *u)
{
	char shown[256];

	str_escape(u->path, strlen(u->path), shown, sizeof(shown));
	return err_set(u->e, ERR_INVALID, "/%s: %s", shown, error_message(rc));
}

static int fail_sys(int eno, const struct unpack *u)
{
	char shown[256];

	str_escape(u->path, strlen(u->path), shown, sizeof(shown));
	return err_sys(u->e, eno, "/%s", shown);
}

static int compare_seen(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

static void free_seen(void *p)
{
	free(((struct seen *)p)->path);
	free(p);
}

struct attributes {
	struct unpack *u;
	struct ext2_xattr_handle *handle;
	int fd;
	const char *name;
};

/* An attribute that the kernel refuses here is left out, as by cp: "trusted." is for the machine's
 * own root, and some file systems in memory have no "user.". */
static int set_attribute(char *key, char *value, size_t len, void *arg)
{
	struct attributes *a = arg;
	char link[64];

	(void)value;
	void *whole;
	size_t size;

	(void)len;
	if (ext2fs_xattr_get(a->handle, key, &whole, &size))
		return 0;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", a->fd);
	if (setxattr(link, key, whole, size, 0) < 0 && errno != EOPNOTSUPP && errno != EPERM) {
		fail_sys(errno, a->u);
		a->u->failed = true;
	}
	ext2fs_free_mem(&whole);
	return a->u->failed ? XATTR_ABORT : 0;
}

static int copy_attributes(struct unpack *u, ext2_ino_t ino, int fd)
{
	struct attributes a = {.u = u, .fd = fd};
	errcode_t rc = ext2fs_xattrs_open(u->fs, ino, &a.handle);

	if (rc)
		return fail_ext2(rc, u);
	rc = ext2fs_xattrs_read(a.handle);
	if (!rc)
		rc = ext2fs_xattrs_iterate(a.handle, set_attribute, &a);
	ext2fs_xattrs_close(&a.handle);
	return u->failed ? -1 : rc ? fail_ext2(rc, u) : 0;
}

static struct timespec time_of(uint32_t seconds, uint32_t extra)
{
	return (struct timespec){.tv_sec = (int32_t)seconds + ((int64_t)(extra & 3) << 32),
		.tv_nsec = (long)(extra >> 2) % 1000000000};
}

/* Sets what writing into a file would change again: the owner takes away set-uid bits and
 * capabilities, so it comes first. */
static int finish(struct unpack *u, ext2_ino_t ino, const struct ext2_inode_large *in, int fd)
{
	const struct timespec times[] = {
		time_of(in->i_atime, in->i_atime_extra), time_of(in->i_mtime, in->i_mtime_extra)};

	if (fchown(fd, inode_uid(*in), inode_gid(*in)) < 0 || fchmod(fd, in->i_mode & 07777) < 0)
		return fail_sys(errno, u);
	if (copy_attributes(u, ino, fd) < 0)
		return -1;
	return futimens(fd, times) < 0 ? fail_sys(errno, u) : 0;
}

/* True: all bytes are zero, so the file gets a hole there. */
static bool is_empty(const char *p, size_t n)
{
	return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

/* A file whose content is being copied. */
struct content {
	struct unpack *u;
	ext2_file_t file;
	int fd;
	uint64_t size;
	uint64_t next; /* all before this is copied */
};

/* Copies a part, from `at` on. */
static int copy_part(struct content *c, uint64_t at)
{
	unsigned want = c->size - at < PART ? (unsigned)(c->size - at) : PART, got = 0;
	errcode_t rc = ext2fs_file_llseek(c->file, at, EXT2_SEEK_SET, NULL);

	if (!rc)
		rc = ext2fs_file_read(c->file, c->u->part, want, &got);
	if (rc)
		return fail_ext2(rc, c->u);
	errno = ENOSPC; /* a short write has no error of its own */
	if (!is_empty(c->u->part, got) && pwrite(c->fd, c->u->part, got, (off_t)at) != (ssize_t)got)
		return fail_sys(errno, c->u);
	c->next = at + got;
	return 0;
}

static int on_block(ext2_filsys fs, blk64_t *block, e2_blkcnt_t number, blk64_t ref_block,
	int ref_offset, void *arg)
{
	struct content *c = arg;
	uint64_t at = (uint64_t)number * fs->blocksize;

	(void)block, (void)ref_block, (void)ref_offset;
	if (number < 0 || at < c->next || at >= c->size)
		return 0;
	if (copy_part(c, at) == 0)
		return 0;
	c->u->failed = true;
	return BLOCK_ABORT;
}

/* Looks only where the file has blocks: what claims to have terabytes would take hours. */
static int copy_blocks(struct content *c, ext2_ino_t ino, const struct ext2_inode_large *in)
{
	const int flags = BLOCK_FLAG_READ_ONLY | BLOCK_FLAG_DATA_ONLY;
	errcode_t rc;

	if (c->size == 0)
		return 0;
	if (in->i_flags & EXT4_INLINE_DATA_FL)
		return copy_part(c, 0);
	rc = ext2fs_block_iterate3(c->u->fs, ino, flags, NULL, on_block, c);
	return c->u->failed ? -1 : rc ? fail_ext2(rc, c->u) : 0;
}

static int copy_content(struct unpack *u, ext2_ino_t ino, const struct ext2_inode_large *in, int fd)
{
	struct content c = {.u = u, .fd = fd, .size = EXT2_I_SIZE(in)};
	errcode_t rc = ext2fs_file_open(u->fs, ino, 0, &c.file);
	int done;

	if (rc)
		return fail_ext2(rc, u);
	done = copy_blocks(&c, ino, in);
	rc = ext2fs_file_close(c.file);
	if (done < 0)
		return -1;
	if (rc)
		return fail_ext2(rc, u);
	return ftruncate(fd, (off_t)c.size) < 0 ? fail_sys(errno, u) : 0;
}

static int make_file(
	const struct walk *w, const char *name, ext2_ino_t ino, const struct ext2_inode_large *in)
{
	auto_fd int fd =
		openat(w->fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return fail_sys(errno, w->u);
	if (copy_content(w->u, ino, in, fd) < 0)
		return -1;
	return finish(w->u, ino, in, fd);
}

static int make_link(
	const struct walk *w, const char *name, ext2_ino_t ino, const struct ext2_inode_large *in)
{
	const struct timespec times[] = {
		time_of(in->i_atime, in->i_atime_extra), time_of(in->i_mtime, in->i_mtime_extra)};
	uint64_t size = EXT2_I_SIZE(in);
	char target[PATH_MAX] = "";
	ext2_file_t file;
	unsigned got = 0;
	errcode_t rc;

	if (size == 0 || size >= sizeof(target))
		return fail_sys(ENAMETOOLONG, w->u);
	if (size < sizeof(in->i_block) && !(in->i_flags & EXT4_INLINE_DATA_FL)) {
		memcpy(target, in->i_block, size);
	} else {
		rc = ext2fs_file_open(w->u->fs, ino, 0, &file);
		if (!rc) {
			rc = ext2fs_file_read(file, target, (unsigned)size, &got);
			ext2fs_file_close(file);
		}
		if (rc)
			return fail_ext2(rc, w->u);
	}
	if (symlinkat(target, w->fd, name) < 0 ||
		fchownat(w->fd, name, inode_uid(*in), inode_gid(*in), AT_SYMLINK_NOFOLLOW) < 0 ||
		utimensat(w->fd, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return fail_sys(errno, w->u);
	return 0;
}

static int make_pipe(const struct walk *w, const char *name, const struct ext2_inode_large *in)
{
	const struct timespec times[] = {
		time_of(in->i_atime, in->i_atime_extra), time_of(in->i_mtime, in->i_mtime_extra)};
	mode_t mode = in->i_mode & (S_IFMT | 07777);

	if (mknodat(w->fd, name, mode, 0) < 0 ||
		fchownat(w->fd, name, inode_uid(*in), inode_gid(*in), AT_SYMLINK_NOFOLLOW) < 0 ||
		fchmodat(w->fd, name, mode & 07777, 0) < 0 ||
		utimensat(w->fd, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return fail_sys(errno, w->u);
	return 0;
}

/* A user namespace cannot make device files: whoever makes the next file system can. */
static void tell_device(const struct unpack *u, const struct ext2_inode_large *in)
{
	unsigned old = in->i_block[0], new = in->i_block[1];
	unsigned major = old ? old >> 8 & 0xff : (new & 0xfff00) >> 8;
	unsigned minor = old ? old & 0xff : (new & 0xff) | (new >> 12 & 0xfff00);

	if (!strpbrk(u->path, " \t\n\""))
		printf("%u %u %o %u %u /%s\n", major, minor, in->i_mode, inode_uid(*in),
			inode_gid(*in), u->path);
}

static int walk_directory(struct unpack *u, ext2_ino_t ino, int fd);

static int make_directory(
	const struct walk *w, const char *name, ext2_ino_t ino, const struct ext2_inode_large *in)
{
	auto_fd int fd = -1;

	if (mkdirat(w->fd, name, 0700) < 0)
		return fail_sys(errno, w->u);
	fd = openat(w->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return fail_sys(errno, w->u);
	if (walk_directory(w->u, ino, fd) < 0)
		return -1;
	return finish(w->u, ino, in, fd);
}

/* Returns 1 if the file has been made under another name, and has this one, too, now. */
static int link_to_seen(const struct walk *w, const char *name, ext2_ino_t ino)
{
	struct unpack *u = w->u;
	struct seen *one = calloc(1, sizeof(*one)), **found;

	if (!one)
		return err_oom(u->e);
	one->ino = ino;
	found = tsearch(one, &u->seen, compare_seen);
	if (!found || *found == one) {
		one->path = strdup(u->path);
		return found && one->path ? 0 : err_oom(u->e);
	}
	free(one);
	if (linkat(u->to_fd, (*found)->path, w->fd, name, 0) < 0)
		return fail_sys(errno, u);
	return 1;
}

static int make_entry(const struct walk *w, const char *name, ext2_ino_t ino)
{
	struct ext2_inode_large in = {0};
	errcode_t rc =
		ext2fs_read_inode_full(w->u->fs, ino, (struct ext2_inode *)&in, (int)sizeof(in));
	int got;

	if (rc)
		return fail_ext2(rc, w->u);
	if (!S_ISDIR(in.i_mode) && !S_ISCHR(in.i_mode) && !S_ISBLK(in.i_mode) &&
		in.i_links_count > 1) {
		got = link_to_seen(w, name, ino);
		if (got != 0)
			return got < 0 ? -1 : 0;
	}
	switch (in.i_mode & S_IFMT) {
	case S_IFREG:
		return make_file(w, name, ino, &in);
	case S_IFDIR:
		return make_directory(w, name, ino, &in);
	case S_IFLNK:
		return make_link(w, name, ino, &in);
	case S_IFIFO:
	case S_IFSOCK:
		return make_pipe(w, name, &in);
	case S_IFBLK:
	case S_IFCHR:
		tell_device(w->u, &in);
		return 0;
	default:
		return fail_sys(EINVAL, w->u);
	}
}

static bool is_plain(const char *name, size_t len)
{
	return len > 0 && len <= NAME_MAX && !memchr(name, '/', len) && !memchr(name, 0, len);
}

static int on_entry(ext2_ino_t dir, int kind, struct ext2_dir_entry *ent, int offset,
	int block_size, char *block, void *arg)
{
	const struct walk *w = arg;
	struct unpack *u = w->u;
	size_t len = (size_t)ext2fs_dirent_name_len(ent), before = strlen(u->path);
	char name[NAME_MAX + 1] = "";
	int rc;

	(void)dir, (void)kind, (void)offset, (void)block_size, (void)block;
	if (is_plain(ent->name, len))
		memcpy(name, ent->name, len);
	if (ent->inode == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return 0;
	if (!*name || before + len + 2 > sizeof(u->path)) {
		err_set(u->e, ERR_INVALID, "a file with a name that no file can have");
		u->failed = true;
		return DIRENT_ABORT;
	}
	snprintf(u->path + before, sizeof(u->path) - before, "%s%s", before ? "/" : "", name);
	/* It is made by e2fsck and mke2fs for themselves. */
	rc = before == 0 && strcmp(name, "lost+found") == 0 ? 0 : make_entry(w, name, ent->inode);
	if (rc < 0) {
		u->failed = true;
		return DIRENT_ABORT;
	}
	u->path[before] = 0;
	return 0;
}

static int walk_directory(struct unpack *u, ext2_ino_t ino, int fd)
{
	struct walk w = {.u = u, .fd = fd};
	errcode_t rc;

	/* A directory below itself would never end. */
	if (++u->depth > DEPTH_MAX)
		return err_set(u->e, ERR_INVALID, "directories are deeper than %d", DEPTH_MAX);
	rc = ext2fs_dir_iterate2(u->fs, ino, 0, NULL, on_entry, &w);
	u->depth--;
	return u->failed ? -1 : rc ? fail_ext2(rc, u) : 0;
}

static int unpack_root(struct unpack *u)
{
	struct ext2_inode_large in = {0};
	errcode_t rc = ext2fs_read_inode_full(
		u->fs, EXT2_ROOT_INO, (struct ext2_inode *)&in, (int)sizeof(in));

	if (rc)
		return fail_ext2(rc, u);
	if (walk_directory(u, EXT2_ROOT_INO, u->to_fd) < 0)
		return -1;
	return finish(u, EXT2_ROOT_INO, &in, u->to_fd);
}

int unpack_ext4(const char *disk, uint64_t offset, int to_fd, struct err *e)
{
	auto_free char *part = malloc(PART);
	struct unpack u = {.to_fd = to_fd, .part = part, .e = e};
	char options[48];
	errcode_t rc;
	int done;

	if (!part)
		return err_oom(e);
	initialize_ext2_error_table();
	snprintf(options, sizeof(options), "offset=%llu", (unsigned long long)offset);
	rc = ext2fs_open2(
		disk, options, EXT2_FLAG_64BITS | EXT2_FLAG_THREADS, 0, 0, unix_io_manager, &u.fs);
	if (rc)
		return err_set(e, ERR_INVALID, "the root file system cannot be read: %s",
			error_message(rc));
	done = unpack_root(&u);
	tdestroy(u.seen, free_seen);
	ext2fs_close_free(&u.fs);
	if (done < 0)
		return -1;
	return fflush(stdout) != 0 ? err_sys(e, errno, "stdout") : 0;
}
