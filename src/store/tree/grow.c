#include "store/tree/grow.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "util/auto.h"

enum { LINKS_MAX = 65000, DEEPEST = 4 * GROW_DEPTH };

static int fail(const struct grow *g, errcode_t rc, const char *what)
{
	if (rc == EXT2_ET_BLOCK_ALLOC_FAIL || rc == EXT2_ET_INODE_ALLOC_FAIL || rc == ENOSPC)
		return err_set(g->e, ERR_LIMIT, "the disk is too small for its files");
	return err_set(g->e, ERR_INVALID, "%s: %s", what, error_message(rc));
}

int grow_open(const char *disk, struct grow *ret, struct err *e)
{
	struct grow g = {.part = malloc(GROW_PART), .e = e};
	errcode_t rc;

	if (!g.part)
		return err_oom(e);
	initialize_ext2_error_table();
	rc = ext2fs_open2(
		disk, NULL, EXT2_FLAG_RW | EXT2_FLAG_64BITS, 0, 0, unix_io_manager, &g.fs);
	if (!rc)
		rc = ext2fs_read_bitmaps(g.fs);
	if (rc) {
		grow_drop(&g);
		return fail(&g, rc, "the new file system");
	}
	*ret = g;
	return 0;
}

int grow_close(struct grow *g)
{
	errcode_t rc = ext2fs_close_free(&g->fs);

	free(take_ptr(&g->part));
	return rc ? fail(g, rc, "writing the file system") : 0;
}

void grow_drop(struct grow *g)
{
	if (g->fs)
		ext2fs_free(g->fs);
	g->fs = NULL;
	free(take_ptr(&g->part));
}

static int read_inode(struct grow *g, ext2_ino_t ino, struct ext2_inode_large *ret)
{
	errcode_t rc =
		ext2fs_read_inode_full(g->fs, ino, (struct ext2_inode *)ret, (int)sizeof(*ret));

	return rc ? fail(g, rc, "reading an inode") : 0;
}

static int write_inode(struct grow *g, ext2_ino_t ino, struct ext2_inode_large *in)
{
	errcode_t rc =
		ext2fs_write_inode_full(g->fs, ino, (struct ext2_inode *)in, (int)sizeof(*in));

	return rc ? fail(g, rc, "writing an inode") : 0;
}

int grow_find(struct grow *g, ext2_ino_t dir, const char *name, ext2_ino_t *ret)
{
	errcode_t rc = ext2fs_lookup(g->fs, dir, name, (int)strlen(name), NULL, ret);

	if (rc == EXT2_ET_FILE_NOT_FOUND)
		return 0;
	return rc ? fail(g, rc, "reading a directory") : 1;
}

int grow_mode(struct grow *g, ext2_ino_t ino, mode_t *ret)
{
	struct ext2_inode_large in = {0};

	if (read_inode(g, ino, &in) < 0)
		return -1;
	*ret = in.i_mode;
	return 0;
}

int grow_link_target(struct grow *g, ext2_ino_t ino, char *ret, size_t size)
{
	struct ext2_inode_large in = {0};
	ext2_file_t file;
	unsigned got = 0;
	errcode_t rc;

	if (read_inode(g, ino, &in) < 0)
		return -1;
	if (EXT2_I_SIZE(&in) >= size)
		return err_set(g->e, ERR_INVALID, "a symbolic link is too long");
	memset(ret, 0, size);
	if (ext2fs_is_fast_symlink((struct ext2_inode *)&in)) {
		memcpy(ret, in.i_block, EXT2_I_SIZE(&in));
		return 0;
	}
	rc = ext2fs_file_open(g->fs, ino, 0, &file);
	if (!rc) {
		rc = ext2fs_file_read(file, ret, (unsigned)EXT2_I_SIZE(&in), &got);
		ext2fs_file_close(file);
	}
	return rc ? fail(g, rc, "reading a symbolic link") : 0;
}

/* ---- making entries ---- */

static int kind_of(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR:
		return EXT2_FT_DIR;
	case S_IFLNK:
		return EXT2_FT_SYMLINK;
	case S_IFCHR:
		return EXT2_FT_CHRDEV;
	case S_IFBLK:
		return EXT2_FT_BLKDEV;
	case S_IFIFO:
		return EXT2_FT_FIFO;
	case S_IFSOCK:
		return EXT2_FT_SOCK;
	default:
		return EXT2_FT_REG_FILE;
	}
}

static int add_name(struct grow *g, ext2_ino_t dir, const char *name, ext2_ino_t ino, mode_t mode)
{
	errcode_t rc = ext2fs_link(g->fs, dir, name, ino, kind_of(mode));

	if (rc == EXT2_ET_DIR_NO_SPACE) {
		rc = ext2fs_expand_dir(g->fs, dir);
		if (!rc)
			rc = ext2fs_link(g->fs, dir, name, ino, kind_of(mode));
	}
	return rc ? fail(g, rc, "making a file") : 0;
}

int grow_directory(struct grow *g, ext2_ino_t dir, const char *name, ext2_ino_t *ret)
{
	struct ext2_inode_large in = {0};
	errcode_t rc;

	if (read_inode(g, dir, &in) < 0)
		return -1;
	if (in.i_links_count >= LINKS_MAX)
		return err_set(g->e, ERR_LIMIT, "a directory has more than %d others", LINKS_MAX);
	rc = ext2fs_mkdir(g->fs, dir, 0, name);
	if (rc == EXT2_ET_DIR_NO_SPACE) {
		rc = ext2fs_expand_dir(g->fs, dir);
		if (!rc)
			rc = ext2fs_mkdir(g->fs, dir, 0, name);
	}
	if (!rc)
		rc = ext2fs_lookup(g->fs, dir, name, (int)strlen(name), NULL, ret);
	return rc ? fail(g, rc, "making a directory") : 0;
}

int grow_symlink(
	struct grow *g, ext2_ino_t dir, const char *name, const char *target, ext2_ino_t *ret)
{
	errcode_t rc;

	if (!*target || strlen(target) >= PATH_MAX)
		return err_set(g->e, ERR_INVALID, "a symbolic link is empty, or too long");
	rc = ext2fs_symlink(g->fs, dir, 0, name, target);
	if (rc == EXT2_ET_DIR_NO_SPACE) {
		rc = ext2fs_expand_dir(g->fs, dir);
		if (!rc)
			rc = ext2fs_symlink(g->fs, dir, 0, name, target);
	}
	if (!rc)
		rc = ext2fs_lookup(g->fs, dir, name, (int)strlen(name), NULL, ret);
	return rc ? fail(g, rc, "making a symbolic link") : 0;
}

/* The numbers of a device, as the kernel keeps them: the old form where they fit. */
static void set_device(struct ext2_inode_large *in, unsigned major, unsigned minor)
{
	if (major < 256 && minor < 256)
		in->i_block[0] = major * 256 + minor;
	else
		in->i_block[1] = (minor & 0xff) | (major & 0xfff) << 8 | (minor & ~0xffU) << 12;
}

int grow_node(struct grow *g, ext2_ino_t dir, const char *name, const struct grow_meta *meta,
	ext2_ino_t *ret)
{
	struct ext2_inode_large in = {.i_mode = (uint16_t)meta->mode, .i_links_count = 1};
	ext2_extent_handle_t extents;
	ext2_ino_t ino;
	errcode_t rc = ext2fs_new_inode(g->fs, dir, (int)meta->mode, NULL, &ino);

	if (rc)
		return fail(g, rc, "making a file");
	if (S_ISCHR(meta->mode) || S_ISBLK(meta->mode))
		set_device(&in, meta->major, meta->minor);
	if (S_ISREG(meta->mode)) { /* opening an empty map makes one */
		rc = ext2fs_extent_open2(g->fs, ino, (struct ext2_inode *)&in, &extents);
		if (rc)
			return fail(g, rc, "making a file");
		ext2fs_extent_free(extents);
	}
	rc = ext2fs_write_new_inode(g->fs, ino, (struct ext2_inode *)&in);
	if (rc)
		return fail(g, rc, "making a file");
	ext2fs_inode_alloc_stats2(g->fs, ino, +1, 0);
	if (add_name(g, dir, name, ino, meta->mode) < 0)
		return -1;
	*ret = ino;
	return 0;
}

int grow_hard_link(struct grow *g, ext2_ino_t dir, const char *name, ext2_ino_t ino)
{
	struct ext2_inode_large in = {0};

	if (read_inode(g, ino, &in) < 0)
		return -1;
	if (in.i_links_count >= LINKS_MAX)
		return err_set(g->e, ERR_LIMIT, "a file has more than %d names", LINKS_MAX);
	if (add_name(g, dir, name, ino, in.i_mode) < 0)
		return -1;
	in.i_links_count++;
	return write_inode(g, ino, &in);
}

/* ---- content ---- */

static bool is_zero(const char *p, size_t n)
{
	return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

/* Writes what is in g->part into the blocks that a file has from `first` on, in as few pieces as
 * the blocks lie in. */
static int write_blocks(
	struct grow *g, ext2_ino_t ino, struct ext2_inode_large *in, blk64_t first, unsigned count)
{
	unsigned size = g->fs->blocksize;
	blk64_t start = 0;
	unsigned run = 0;

	for (unsigned i = 0; i <= count; i++) {
		blk64_t at = 0;
		errcode_t rc = 0;

		if (i < count)
			rc = ext2fs_bmap2(
				g->fs, ino, (struct ext2_inode *)in, NULL, 0, first + i, NULL, &at);
		if (!rc && i < count && at == 0)
			rc = EXT2_ET_BLOCK_ALLOC_FAIL;
		if (!rc && run && (i == count || at != start + run)) {
			rc = io_channel_write_blk64(
				g->fs->io, start, (int)run, g->part + (size_t)(i - run) * size);
			run = 0;
		}
		if (rc)
			return fail(g, rc, "writing a file");
		if (run == 0)
			start = at;
		run++;
	}
	return 0;
}

int grow_write(struct grow *g, ext2_ino_t ino, uint64_t at, size_t n)
{
	unsigned size = g->fs->blocksize, count = (unsigned)((n + size - 1) / size);
	struct ext2_inode_large in = {0};
	errcode_t rc;

	if (is_zero(g->part, n))
		return 0;
	memset(g->part + n, 0, (size_t)count * size - n);
	if (read_inode(g, ino, &in) < 0)
		return -1;
	rc = ext2fs_fallocate(g->fs, EXT2_FALLOCATE_FORCE_INIT, ino, (struct ext2_inode *)&in,
		~0ULL, at / size, count);
	if (rc)
		return fail(g, rc, "writing a file");
	if (write_inode(g, ino, &in) < 0) /* it counts the new blocks */
		return -1;
	return write_blocks(g, ino, &in, at / size, count);
}

int grow_set_size(struct grow *g, ext2_ino_t ino, uint64_t size)
{
	struct ext2_inode_large in = {0};
	errcode_t rc;

	if (read_inode(g, ino, &in) < 0)
		return -1;
	rc = ext2fs_inode_size_set(g->fs, (struct ext2_inode *)&in, (ext2_off64_t)size);
	if (rc)
		return fail(g, rc, "writing a file");
	return write_inode(g, ino, &in);
}

/* ---- what a file has besides ---- */

/* Seconds since 1970 in 34 bits: the upper two are beside the nanoseconds. */
static void set_time(const struct timespec *t, uint32_t *seconds, uint32_t *extra)
{
	int64_t s = t->tv_sec < INT32_MIN ? INT32_MIN : t->tv_sec;
	int64_t most = (int64_t)3 * ((int64_t)1 << 32) + INT32_MAX;

	s = s > most ? most : s;
	*seconds = (uint32_t)s;
	*extra = ((uint32_t)((s - (int32_t)*seconds) >> 32) & 3) |
		 ((uint32_t)t->tv_nsec % 1000000000U) << 2;
}

int grow_set_meta(struct grow *g, ext2_ino_t ino, const struct grow_meta *meta)
{
	struct ext2_inode_large in = {0};

	if (read_inode(g, ino, &in) < 0)
		return -1;
	in.i_mode = (uint16_t)((in.i_mode & S_IFMT) | (meta->mode & 07777));
	in.i_uid = (uint16_t)meta->uid;
	in.i_gid = (uint16_t)meta->gid;
	ext2fs_set_i_uid_high(in, (uint16_t)(meta->uid >> 16));
	ext2fs_set_i_gid_high(in, (uint16_t)(meta->gid >> 16));
	set_time(&meta->atime, &in.i_atime, &in.i_atime_extra);
	set_time(&meta->mtime, &in.i_mtime, &in.i_mtime_extra);
	set_time(&meta->mtime, &in.i_ctime, &in.i_ctime_extra);
	set_time(&meta->mtime, &in.i_crtime, &in.i_crtime_extra);
	return write_inode(g, ino, &in);
}

int grow_set_attribute(
	struct grow *g, ext2_ino_t ino, const char *name, const void *value, size_t len)
{
	struct ext2_xattr_handle *handle;
	errcode_t rc = ext2fs_xattrs_open(g->fs, ino, &handle);

	if (!rc) {
		rc = ext2fs_xattrs_read(handle);
		if (!rc)
			rc = ext2fs_xattr_set(handle, name, value, len);
		ext2fs_xattrs_close(&handle); /* it has been written */
	}
	return rc ? fail(g, rc, "an extended attribute") : 0;
}

/* ---- removing ---- */

static int release(struct grow *g, ext2_ino_t ino, struct ext2_inode_large *in)
{
	errcode_t rc;

	in->i_links_count = 0;
	in->i_dtime = (uint32_t)time(NULL); /* a small number would be one of a list of inodes */
	if (write_inode(g, ino, in) < 0)
		return -1;
	rc = ext2fs_free_ext_attr(g->fs, ino, in);
	if (!rc && ext2fs_inode_has_valid_blocks2(g->fs, (struct ext2_inode *)in))
		rc = ext2fs_punch(g->fs, ino, (struct ext2_inode *)in, NULL, 0, ~0ULL);
	if (rc)
		return fail(g, rc, "removing a file");
	ext2fs_inode_alloc_stats2(g->fs, ino, -1, S_ISDIR(in->i_mode));
	return 0;
}

struct names {
	char **items;
	size_t n;
	bool failed;
};

static void names_free(struct names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->items[i]);
	free(names->items);
}

static int on_name(struct ext2_dir_entry *ent, int offset, int block_size, char *block, void *arg)
{
	size_t len = (size_t)ext2fs_dirent_name_len(ent);
	struct names *names = arg;
	char **more;

	(void)offset, (void)block_size, (void)block;
	if ((len == 1 && ent->name[0] == '.') || (len == 2 && memcmp(ent->name, "..", 2) == 0))
		return 0;
	more = realloc(names->items, (names->n + 1) * sizeof(*more));
	if (more) {
		names->items = more;
		more[names->n] = strndup(ent->name, len);
	}
	if (!more || !more[names->n]) {
		names->failed = true;
		return DIRENT_ABORT;
	}
	names->n++;
	return 0;
}

static int remove_entry(struct grow *g, ext2_ino_t dir, const char *name, unsigned depth);

static int clear(struct grow *g, ext2_ino_t dir, unsigned depth)
{
	__attribute__((cleanup(names_free))) struct names names = {0};
	errcode_t rc = ext2fs_dir_iterate(g->fs, dir, 0, NULL, on_name, &names);

	if (rc)
		return fail(g, rc, "reading a directory");
	if (names.failed)
		return err_oom(g->e);
	/* A directory may be moved nowhere, so it is nowhere deeper than it was made. */
	if (depth > DEEPEST)
		return err_set(g->e, ERR_LIMIT, "directories are deeper than %d", DEEPEST);
	for (size_t i = 0; i < names.n; i++)
		if (remove_entry(g, dir, names.items[i], depth + 1) < 0)
			return -1;
	return 0;
}

static int drop_link(struct grow *g, ext2_ino_t ino)
{
	struct ext2_inode_large in = {0};

	if (read_inode(g, ino, &in) < 0)
		return -1;
	if (in.i_links_count <= 1)
		return release(g, ino, &in);
	in.i_links_count--;
	return write_inode(g, ino, &in);
}

static int remove_entry(struct grow *g, ext2_ino_t dir, const char *name, unsigned depth)
{
	struct ext2_inode_large in = {0};
	ext2_ino_t ino;
	errcode_t rc;
	int got = grow_find(g, dir, name, &ino);

	if (got <= 0 || read_inode(g, ino, &in) < 0)
		return got == 0 ? 0 : -1;
	if (S_ISDIR(in.i_mode) && clear(g, ino, depth) < 0)
		return -1;
	rc = ext2fs_unlink(g->fs, dir, name, ino, 0);
	if (rc)
		return fail(g, rc, "removing a file");
	if (!S_ISDIR(in.i_mode))
		return drop_link(g, ino);
	if (read_inode(g, ino, &in) < 0 || release(g, ino, &in) < 0 || read_inode(g, dir, &in) < 0)
		return -1;
	if (in.i_links_count > 2) /* the parent had one for the ".." */
		in.i_links_count--;
	return write_inode(g, dir, &in);
}

int grow_remove(struct grow *g, ext2_ino_t dir, const char *name)
{
	return remove_entry(g, dir, name, 0);
}

int grow_clear(struct grow *g, ext2_ino_t dir)
{
	return clear(g, dir, 0);
}
