/*
 * How it works: each layer is read twice. The first time what it removes is removed, for that
 * counts for the layers below, wherever in the layer it is said. The second time files are made.
 *
 * A layer may be hostile. Its names are looked up here, in the new file system: no link in it leads
 * anywhere else, and no file of the host has a name that could be meant. What comes out of a layer
 * is counted.
 */
#include "store/tree/layers.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "store/tree/grow.h"
#include "util/auto.h"
#include "util/str.h"

#define REMOVED  ".wh."
#define OPAQUE   ".wh..wh..opq"
#define INTERNAL ".wh..wh."
enum { READ_BLOCK = 256 * 1024, LINKS_FOLLOWED = 40, TELL_EACH = 4 << 20, ATTRIBUTES_MAX = 64 };

struct layers {
	struct grow g;
	uint64_t max, files; /* files: bytes of what the layers hold as files */
	uint64_t done, told, total;
	struct archive *a;
	struct err *e;
};

static void archive_freep(struct archive **a)
{
	if (*a)
		archive_read_free(*a);
}
#define auto_archive __attribute__((cleanup(archive_freep)))

static int fail_name(const struct layers *l, const char *path, const char *why)
{
	char shown[256];

	str_escape(path, strlen(path), shown, sizeof(shown));
	return err_set(l->e, ERR_INVALID, "the file \"%s\" in a layer %s", shown, why);
}

static int fail_archive(const struct layers *l)
{
	const char *text = archive_error_string(l->a);
	char shown[256];

	text = text ? text : "unreadable";
	str_escape(text, strlen(text), shown, sizeof(shown));
	return err_set(l->e, ERR_INVALID, "a layer is damaged: %s", shown);
}

/* ---- names ---- */

/* Where a walk is: the directories from the root to it, so that ".." needs no look at the disk. */
struct walk {
	ext2_ino_t dirs[GROW_DEPTH];
	unsigned depth;
	unsigned followed; /* symbolic links */
	bool make;         /* directories that are missing */
};

static struct walk walk_from_root(bool make)
{
	return (struct walk){.dirs = {EXT2_ROOT_INO}, .make = make};
}

static ext2_ino_t walk_at(const struct walk *w)
{
	return w->dirs[w->depth];
}

static int walk_path(struct layers *l, struct walk *w, const char *path);

static int make_missing(struct layers *l, ext2_ino_t dir, const char *name, ext2_ino_t *ret)
{
	const struct grow_meta plain = {.mode = 0755};

	if (grow_directory(&l->g, dir, name, ret) < 0)
		return -1;
	return grow_set_meta(&l->g, *ret, &plain);
}

/* Follows a link, from the directory that it is in or from the root. Returns as walk_path. */
static int follow(struct layers *l, struct walk *w, ext2_ino_t link)
{
	char target[PATH_MAX];

	if (++w->followed > LINKS_FOLLOWED)
		return err_set(l->e, ERR_INVALID, "symbolic links in a layer lead in circles");
	if (grow_link_target(&l->g, link, target, sizeof(target)) < 0)
		return -1;
	if (target[0] == '/')
		w->depth = 0;
	return walk_path(l, w, target);
}

/* Enters one directory. Returns 1, or 0 if there is none. */
static int walk_part(struct layers *l, struct walk *w, const char *name)
{
	ext2_ino_t found;
	mode_t mode;
	int got;

	if (strcmp(name, ".") == 0)
		return 1;
	if (strcmp(name, "..") == 0) {
		w->depth -= w->depth ? 1 : 0;
		return 1;
	}
	got = grow_find(&l->g, walk_at(w), name, &found);
	if (got < 0)
		return -1;
	if (got == 0 && !w->make)
		return 0;
	if (got == 0 && make_missing(l, walk_at(w), name, &found) < 0)
		return -1;
	if (grow_mode(&l->g, found, &mode) < 0)
		return -1;
	if (S_ISLNK(mode))
		return follow(l, w, found);
	if (!S_ISDIR(mode))
		return w->make ? fail_name(l, name, "is a file and a directory") : 0;
	if (w->depth + 1 >= GROW_DEPTH)
		return err_set(
			l->e, ERR_LIMIT, "directories in a layer are deeper than %d", GROW_DEPTH);
	w->dirs[++w->depth] = found;
	return 1;
}

/* Enters all directories of a path. Returns 1, or 0 if one is missing. */
static int walk_path(struct layers *l, struct walk *w, const char *path)
{
	while (*(path += strspn(path, "/"))) {
		size_t len = strcspn(path, "/");
		char name[NAME_MAX + 1] = "";
		int got;

		if (len > NAME_MAX)
			return fail_name(l, path, "has a name that is too long");
		memcpy(name, path, len);
		got = walk_part(l, w, name);
		if (got != 1)
			return got;
		path += len;
	}
	return 1;
}

/* An entry's directory and its name in there. Returns 1; 0 if the directory is missing and is not
 * made, or if the entry is the root. */
static int place(struct layers *l, const char *path, bool make, ext2_ino_t *ret_dir,
	char ret_name[NAME_MAX + 1])
{
	struct walk w = walk_from_root(make);
	auto_free char *copy = NULL;
	char *end, *slash;
	int got;

	ret_name[0] = 0;
	*ret_dir = EXT2_ROOT_INO;
	if (str_dup(path, &copy, l->e) < 0)
		return -1;
	for (end = copy + strlen(copy); end > copy;) { /* "a/b/", "a/b/." and "./" */
		if (end[-1] == '/' || (end[-1] == '.' && (end == copy + 1 || end[-2] == '/')))
			*--end = 0;
		else
			break;
	}
	if (!*copy)
		return 0;
	for (const char *at = copy; at; at = strchr(at, '/')) {
		at += strspn(at, "/");
		if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || !at[2]))
			return fail_name(l, path, "has a name that leads out of the image");
	}
	slash = strrchr(copy, '/');
	if (strlen(slash ? slash + 1 : copy) > NAME_MAX)
		return fail_name(l, path, "has a name that is too long");
	snprintf(ret_name, NAME_MAX + 1, "%s", slash ? slash + 1 : copy);
	if (slash) {
		*slash = 0;
		got = walk_path(l, &w, copy);
		if (got != 1)
			return got;
		*ret_dir = walk_at(&w);
	}
	return 1;
}

/* ---- reading a layer ---- */

static int open_layer(struct layers *l, const char *path)
{
	l->a = archive_read_new();
	if (!l->a)
		return err_oom(l->e);
	if (archive_read_support_filter_gzip(l->a) != ARCHIVE_OK ||
		archive_read_support_filter_xz(l->a) < ARCHIVE_WARN ||
		archive_read_support_filter_zstd(l->a) < ARCHIVE_WARN ||
		archive_read_support_format_tar(l->a) != ARCHIVE_OK ||
		archive_read_support_format_empty(l->a) != ARCHIVE_OK ||
		archive_read_open_filename(l->a, path, READ_BLOCK) != ARCHIVE_OK)
		return fail_archive(l);
	return 0;
}

static int count(struct layers *l)
{
	int64_t in = archive_filter_bytes(l->a, -1), out = archive_filter_bytes(l->a, 0);

	if (out > 0 && (uint64_t)out > l->max)
		return err_set(l->e, ERR_LIMIT, "a layer holds more than the disk can");
	if (in > 0 && l->done + (uint64_t)in >= l->told + TELL_EACH) {
		l->told = l->done + (uint64_t)in;
		printf("progress %llu %llu \n", (unsigned long long)l->told,
			(unsigned long long)l->total);
		fflush(stdout);
	}
	return 0;
}

/* Returns 1 and the next entry, or 0 at the end. */
static int next_entry(struct layers *l, struct archive_entry **ret)
{
	int rc = archive_read_next_header(l->a, ret);

	if (rc == ARCHIVE_EOF)
		return 0;
	if (rc != ARCHIVE_OK && rc != ARCHIVE_WARN)
		return fail_archive(l);
	if (count(l) < 0)
		return -1;
	if (!archive_entry_pathname(*ret))
		return err_set(l->e, ERR_INVALID, "a layer has a file without a name");
	return 1;
}

/* ---- what a layer removes ---- */

static int remove_one(struct layers *l, const char *path)
{
	char name[NAME_MAX + 1];
	ext2_ino_t dir;
	int got = place(l, path, false, &dir, name);

	if (got < 0)
		return -1;
	if (got == 0 || !str_starts(name, REMOVED))
		return 0;
	if (strcmp(name, OPAQUE) == 0)
		return grow_clear(&l->g, dir);
	if (str_starts(name, INTERNAL) || !name[strlen(REMOVED)])
		return 0;
	return grow_remove(&l->g, dir, name + strlen(REMOVED));
}

static int remove_all(struct layers *l)
{
	struct archive_entry *entry;
	int got;

	while ((got = next_entry(l, &entry)) == 1)
		if (remove_one(l, archive_entry_pathname(entry)) < 0)
			return -1;
	return got;
}

/* ---- what a layer adds ---- */

static struct grow_meta meta_of(struct archive_entry *entry)
{
	struct grow_meta m = {
		.mode = archive_entry_mode(entry),
		.uid = (uid_t)archive_entry_uid(entry),
		.gid = (gid_t)archive_entry_gid(entry),
		.mtime = {archive_entry_mtime(entry), archive_entry_mtime_nsec(entry)},
		.major = (unsigned)archive_entry_rdevmajor(entry),
		.minor = (unsigned)archive_entry_rdevminor(entry),
	};

	m.atime = m.mtime;
	return m;
}

/* Only what a container's file system can have, too. */
static bool is_kept(const char *name)
{
	return str_starts(name, "security.") || str_starts(name, "user.") ||
	       str_starts(name, "trusted.") || strcmp(name, "system.posix_acl_access") == 0 ||
	       strcmp(name, "system.posix_acl_default") == 0;
}

static int set_attributes(struct layers *l, struct archive_entry *entry, ext2_ino_t ino)
{
	const char *name;
	const void *value;
	size_t len;
	int n = 0;

	archive_entry_xattr_reset(entry);
	while (archive_entry_xattr_next(entry, &name, &value, &len) == ARCHIVE_OK) {
		if (++n > ATTRIBUTES_MAX)
			return fail_name(
				l, archive_entry_pathname(entry), "has too many attributes");
		if (name && is_kept(name) && grow_set_attribute(&l->g, ino, name, value, len) < 0)
			return -1;
	}
	return 0;
}

static int finish(struct layers *l, struct archive_entry *entry, ext2_ino_t ino)
{
	struct grow_meta m = meta_of(entry);

	return grow_set_meta(&l->g, ino, &m) < 0 ? -1 : set_attributes(l, entry, ino);
}

static int copy_content(struct layers *l, ext2_ino_t ino, int64_t size)
{
	uint64_t at = 0;

	if (size < 0 || (l->files += (uint64_t)size) > l->max)
		return err_set(l->e, ERR_LIMIT, "the disk is too small for its files");
	for (;;) {
		size_t n = 0;

		while (n < GROW_PART) {
			la_ssize_t got = archive_read_data(l->a, l->g.part + n, GROW_PART - n);

			if (got < 0 && got != ARCHIVE_WARN)
				return got == ARCHIVE_RETRY
					       ? err_set(l->e, ERR_INVALID, "a layer is damaged")
					       : fail_archive(l);
			if (got <= 0)
				break;
			n += (size_t)got;
		}
		if (n && (count(l) < 0 || grow_write(&l->g, ino, at, n) < 0))
			return -1;
		at += n;
		if (n < GROW_PART)
			break;
	}
	if (at != (uint64_t)size)
		return err_set(l->e, ERR_INVALID, "a layer is cut short");
	return grow_set_size(&l->g, ino, at);
}

static int add_hard_link(struct layers *l, const char *target, ext2_ino_t dir, const char *name)
{
	char its_name[NAME_MAX + 1];
	ext2_ino_t its_dir, ino;
	mode_t mode;
	int got = place(l, target, false, &its_dir, its_name);

	if (got == 1)
		got = grow_find(&l->g, its_dir, its_name, &ino);
	if (got < 0)
		return -1;
	if (got == 0)
		return fail_name(l, target, "is linked to, but is not there");
	if (grow_mode(&l->g, ino, &mode) < 0)
		return -1;
	if (S_ISDIR(mode))
		return fail_name(l, target, "is linked to, but is a directory");
	return grow_hard_link(&l->g, dir, name, ino);
}

static int add_new(struct layers *l, struct archive_entry *entry, ext2_ino_t dir, const char *name)
{
	struct grow_meta m = meta_of(entry);
	ext2_ino_t ino;

	switch (m.mode & S_IFMT) {
	case S_IFDIR:
		if (grow_directory(&l->g, dir, name, &ino) < 0)
			return -1;
		break;
	case S_IFLNK:
		if (grow_symlink(&l->g, dir, name,
			    archive_entry_symlink(entry) ? archive_entry_symlink(entry) : "",
			    &ino) < 0)
			return -1;
		break;
	case S_IFREG:
	case S_IFIFO:
	case S_IFSOCK:
	case S_IFCHR:
	case S_IFBLK:
		if (grow_node(&l->g, dir, name, &m, &ino) < 0)
			return -1;
		if (S_ISREG(m.mode) && copy_content(l, ino, archive_entry_size(entry)) < 0)
			return -1;
		break;
	default:
		return fail_name(l, archive_entry_pathname(entry), "is of no known kind");
	}
	return finish(l, entry, ino);
}

/* Makes room for an entry. Returns 1 if it is a directory that is there already and stays. */
static int replace(struct layers *l, struct archive_entry *entry, ext2_ino_t dir, const char *name,
	ext2_ino_t *ret)
{
	mode_t old;
	int got = grow_find(&l->g, dir, name, ret);

	if (got <= 0)
		return got;
	if (grow_mode(&l->g, *ret, &old) < 0)
		return -1;
	if (S_ISDIR(old) && !archive_entry_hardlink(entry) &&
		archive_entry_filetype(entry) == AE_IFDIR)
		return 1;
	return grow_remove(&l->g, dir, name);
}

/* Whether a link is to the very name that it is to have. */
static bool is_own_link(struct layers *l, const char *target, ext2_ino_t dir, const char *name)
{
	char its_name[NAME_MAX + 1];
	ext2_ino_t its_dir;

	return place(l, target, false, &its_dir, its_name) == 1 && its_dir == dir &&
	       strcmp(its_name, name) == 0;
}

static int add_one(struct layers *l, struct archive_entry *entry)
{
	const char *path = archive_entry_pathname(entry), *target = archive_entry_hardlink(entry);
	char name[NAME_MAX + 1];
	ext2_ino_t dir, there;
	int got = place(l, path, true, &dir, name);

	if (got < 0)
		return -1;
	if (got == 0) /* the root itself */
		return archive_entry_filetype(entry) == AE_IFDIR && !target
			       ? finish(l, entry, EXT2_ROOT_INO)
			       : 0;
	if (str_starts(name, REMOVED) || (target && is_own_link(l, target, dir, name)))
		return 0;
	got = replace(l, entry, dir, name, &there);
	if (got != 0)
		return got < 0 ? -1 : finish(l, entry, there);
	return target ? add_hard_link(l, target, dir, name) : add_new(l, entry, dir, name);
}

static int add_all(struct layers *l)
{
	struct archive_entry *entry;
	int got;

	while ((got = next_entry(l, &entry)) == 1)
		if (add_one(l, entry) < 0)
			return -1;
	return got;
}

static int apply(struct layers *l, const char *path, uint64_t size, bool lowest)
{
	int (*const turns[])(struct layers *) = {remove_all, add_all};

	for (int i = lowest; i < 2; i++) {
		auto_archive struct archive *closed = NULL;

		if (open_layer(l, path) < 0 || turns[i](l) < 0) {
			closed = l->a;
			return -1;
		}
		closed = take_ptr(&l->a);
		l->done += size;
	}
	return 0;
}

static int apply_all(struct layers *l, char *const *paths)
{
	struct stat st;

	for (unsigned i = 0; paths[i]; i++) {
		if (stat(paths[i], &st) < 0)
			return err_sys(l->e, errno, "a layer");
		l->total += (uint64_t)st.st_size * (i ? 2 : 1);
	}
	/* mke2fs makes it; containers have none. */
	if (grow_remove(&l->g, EXT2_ROOT_INO, "lost+found") < 0)
		return -1;
	for (unsigned i = 0; paths[i]; i++) {
		if (stat(paths[i], &st) < 0)
			return err_sys(l->e, errno, "a layer");
		if (apply(l, paths[i], (uint64_t)st.st_size, i == 0) < 0)
			return -1;
	}
	return 0;
}

int layers_apply(const char *disk, uint64_t max, char *const *paths, struct err *e)
{
	struct layers l = {.max = max, .e = e};

	if (grow_open(disk, &l.g, e) < 0)
		return -1;
	if (apply_all(&l, paths) < 0) {
		grow_drop(&l.g);
		return -1;
	}
	return grow_close(&l.g);
}
