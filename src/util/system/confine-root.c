/*
 * How it works: in a mount namespace of our own a small file system in memory becomes the root. It
 * has the directories that programs and their libraries are in, read-only, a /proc, an empty /tmp,
 * and nothing else of the host. Whatever a process works on it has as open files.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/system/confine.h"

/* The new root is made here: a directory that every system has, and whose content no program of
 * ours needs. */
#define BASE "/sys"
#define SIZE "size=64k,nr_inodes=256"

/* Where distributions have programs, libraries and firmware. The cache makes the dynamic linker
 * find libraries of other directories; nft names protocols. */
static const char *const shown[] = {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
	"/nix/store", "/gnu/store", "/etc/ld.so.cache", "/etc/alternatives", "/etc/protocols"};

/* Directories of PREFIX that belong to a program in PREFIX/bin. */
static const char *const beside[] = {"bin", "sbin", "lib", "lib64", "libexec", "share"};

static int make_parents(const char *path)
{
	char part[PATH_MAX];

	for (const char *at = strchr(path + sizeof(BASE), '/'); at; at = strchr(at + 1, '/')) {
		snprintf(part, sizeof(part), "%.*s", (int)(at - path), path);
		if (mkdir(part, 0755) < 0 && errno != EEXIST)
			return -1;
	}
	return 0;
}

/* glibc has had a function for it since 2.36. */
static int set_attributes(const char *path, unsigned flags, uint64_t attributes)
{
	struct mount_attr attr = {.attr_set = attributes};

	return (int)syscall(SYS_mount_setattr, AT_FDCWD, path, flags, &attr, sizeof(attr));
}

static int bind(const char *from, const char *to, uint64_t attributes)
{
	if (mount(from, to, NULL, MS_BIND | MS_REC, NULL) < 0)
		return -1;
	return set_attributes(to, AT_RECURSIVE, attributes);
}

/* Shows a file or a directory of the host, read-only, if there is one. */
static int show(const char *path)
{
	const uint64_t read_only = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
	char to[PATH_MAX + sizeof(BASE)], target[PATH_MAX];
	struct stat st;
	ssize_t n;

	snprintf(to, sizeof(to), BASE "%s", path);
	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : -1;
	if (make_parents(to) < 0)
		return -1;
	if (S_ISLNK(st.st_mode)) { /* /bin, which is usr/bin */
		n = readlink(path, target, sizeof(target) - 1);
		if (n < 0)
			return -1;
		target[n] = 0;
		return symlink(target, to);
	}
	if (S_ISDIR(st.st_mode) ? mkdir(to, 0755) < 0 : mknod(to, S_IFREG | 0644, 0) < 0)
		return errno == EEXIST ? 0 : -1;
	return bind(path, to, read_only);
}

static bool is_shown(const char *file)
{
	for (unsigned i = 0; i < ARRAY_LEN(shown); i++) {
		size_t n = strlen(shown[i]);

		if (strncmp(file, shown[i], n) == 0 && (file[n] == '/' || !file[n]))
			return true;
	}
	return false;
}

/* Shows a program that is in none of the directories above: what was installed with it, or, if it
 * is in no directory for programs, itself alone. */
static int show_program(const char *file)
{
	char prefix[PATH_MAX], path[PATH_MAX + 16], *slash, *dir;

	if (is_shown(file))
		return 0;
	snprintf(prefix, sizeof(prefix), "%s", file);
	slash = strrchr(prefix, '/');
	if (!slash)
		return 0;
	*slash = 0;
	dir = strrchr(prefix, '/');
	if (!dir || (strcmp(dir, "/bin") != 0 && strcmp(dir, "/sbin") != 0))
		return show(file);
	*dir = 0;
	for (unsigned i = 0; i < ARRAY_LEN(beside); i++) {
		snprintf(path, sizeof(path), "%s/%s", prefix, beside[i]);
		if (show(path) < 0)
			return -1;
	}
	return 0;
}

/* Where a container has covered parts of its /proc, no other may be mounted. */
static int make_proc(bool whole)
{
	if (mkdir(BASE "/proc", 0755) < 0)
		return -1;
	if (mount("proc", BASE "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC,
		    whole ? NULL : "subset=pid") == 0)
		return 0;
	return bind("/proc", BASE "/proc", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

/* Shows a device of the host, if there is one. */
static int show_device(const char *path)
{
	char to[PATH_MAX];

	snprintf(to, sizeof(to), BASE "%s", path);
	if (access(path, F_OK) < 0)
		return 0;
	if (make_parents(to) < 0 || mknod(to, S_IFREG | 0600, 0) < 0)
		return -1;
	/* Read-only is the file of the device, whose mode root could change, not the device. */
	return bind(path, to, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
}

/* Root makes a device file that belongs to the process alone, which then needs no group. Others
 * have the host's, which they may open or not, as ever. */
static int make_device(const char *path, uid_t owner)
{
	char to[PATH_MAX];
	struct stat st;

	snprintf(to, sizeof(to), BASE "%s", path);
	if (getuid() == 0 && stat(path, &st) == 0 && make_parents(to) == 0 &&
		mknod(to, S_IFCHR | 0600, st.st_rdev) == 0)
		return chown(to, owner, owner);
	return show_device(path);
}

static int fill(const struct confinement *c, const char *file, uid_t owner)
{
	if (mkdir(BASE "/tmp", 0755) < 0 ||
		mount("moat", BASE "/tmp", "tmpfs", MS_NOSUID | MS_NOEXEC | MS_NODEV,
			SIZE ",mode=1777") < 0)
		return -1;
	for (unsigned i = 0; i < ARRAY_LEN(shown); i++)
		if (show(shown[i]) < 0)
			return -1;
	if ((file && show_program(file) < 0) || make_proc(c->whole_proc) < 0 ||
		show_device("/dev/null") < 0 || show_device("/dev/urandom") < 0 ||
		(c->device && make_device(c->device, owner) < 0))
		return -1;
	return set_attributes(BASE, 0, MOUNT_ATTR_RDONLY);
}

/* The host's root lies above ours afterwards, at the same place. */
static int enter_root(const char *path)
{
	if (chdir(path) < 0 || syscall(SYS_pivot_root, ".", ".") < 0)
		return -1;
	return umount2(".", MNT_DETACH) < 0 ? -1 : chdir("/");
}

/* On /tmp, which roots of ours have, too. */
int confine_empty_root(void)
{
	const unsigned long flags = MS_NOSUID | MS_NOEXEC | MS_NODEV | MS_RDONLY;

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("moat", "/tmp", "tmpfs", flags, SIZE ",mode=0755") < 0)
		return -1;
	return enter_root("/tmp");
}

int confine_root(const struct confinement *c, const char *file, uid_t owner)
{
	mode_t mask = umask(0); /* the process must be able to use what root makes here */
	int rc = mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);

	if (rc == 0)
		rc = mount("moat", BASE, "tmpfs", MS_NOSUID | MS_NOEXEC, SIZE ",mode=0755");
	if (rc == 0)
		rc = fill(c, file, owner);
	umask(mask);
	return rc < 0 ? -1 : enter_root(BASE);
}
