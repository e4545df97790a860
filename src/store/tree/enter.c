#include "store/tree/enter.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/auto.h"

static const char *const devices[] = {"null", "zero", "full", "random", "urandom", "tty"};

/* Installing packages gives files to users and becomes users. Nobody needs mounts, devices or other
 * processes for that. */
static const int kept[] = {CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID, CAP_KILL,
	CAP_SETGID, CAP_SETUID, CAP_SETFCAP, CAP_SYS_CHROOT, CAP_NET_BIND_SERVICE};

static int make_dev(const char *dir, struct err *e)
{
	char to[512], from[64];

	snprintf(to, sizeof(to), "%s/dev", dir);
	if (mount("moat", to, "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=64k") < 0)
		return err_sys(e, errno, "mount /dev");
	for (unsigned i = 0; i < ARRAY_LEN(devices); i++) {
		snprintf(from, sizeof(from), "/dev/%s", devices[i]);
		snprintf(to, sizeof(to), "%s/dev/%s", dir, devices[i]);
		if (mknod(to, S_IFREG | 0666, 0) < 0 || mount(from, to, NULL, MS_BIND, NULL) < 0)
			return err_sys(e, errno, "%s", from);
	}
	snprintf(to, sizeof(to), "%s/dev/fd", dir);
	if (symlink("/proc/self/fd", to) < 0)
		return err_sys(e, errno, "/dev/fd");
	snprintf(to, sizeof(to), "%s/dev/shm", dir);
	if (mkdir(to, 01777) < 0 || chmod(to, 01777) < 0)
		return err_sys(e, errno, "/dev/shm");
	return 0;
}

/* glibc has had mount_setattr since 2.36. */
static int set_mount(const char *at, unsigned flags, struct mount_attr attr)
{
	return (int)syscall(SYS_mount_setattr, AT_FDCWD, at, flags, &attr, sizeof(attr));
}

/* Where moat runs as root, what is in /proc besides processes would be the machine's own settings.
 */
static int cover_proc(const char *dir, struct err *e)
{
	const struct mount_attr read_only = {.attr_set = MOUNT_ATTR_RDONLY};
	auto_dir DIR *entries = NULL;
	const struct dirent *entry;
	char to[512];

	snprintf(to, sizeof(to), "%s/proc", dir);
	entries = opendir(to);
	if (!entries)
		return err_sys(e, errno, "%s", to);
	while ((entry = readdir(entries))) {
		if (entry->d_type == DT_LNK || entry->d_name[0] == '.' ||
			isdigit((unsigned char)entry->d_name[0]))
			continue;
		snprintf(to, sizeof(to), "%s/proc/%s", dir, entry->d_name);
		if (mount(to, to, NULL, MS_BIND | MS_REC, NULL) < 0 ||
			set_mount(to, AT_RECURSIVE, read_only) < 0)
			return err_sys(e, errno, "%s", to);
	}
	return 0;
}

/* All is read-only but the directory: /proc/self/exe of who calls exec is a file of the host. */
static int make_mounts(const char *dir, struct err *e)
{
	const struct mount_attr read_only = {.attr_set = MOUNT_ATTR_RDONLY};
	const struct mount_attr writable = {.attr_clr = MOUNT_ATTR_RDONLY};
	char to[512];

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		set_mount("/", AT_RECURSIVE, read_only) < 0 ||
		mount(dir, dir, NULL, MS_BIND, NULL) < 0 || set_mount(dir, 0, writable) < 0)
		return err_sys(e, errno, "mount %s", dir);
	snprintf(to, sizeof(to), "%s/proc", dir);
	if (mount("proc", to, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return err_sys(e, errno, "mount /proc");
	return cover_proc(dir, e) < 0 ? -1 : make_dev(dir, e);
}

static bool is_kept(int capability)
{
	for (unsigned i = 0; i < ARRAY_LEN(kept); i++)
		if (kept[i] == capability)
			return true;
	return false;
}

static int drop_capabilities(struct err *e)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2];

	for (int i = 0; prctl(PR_CAPBSET_READ, i) >= 0; i++)
		if (!is_kept(i) && prctl(PR_CAPBSET_DROP, i) < 0)
			return err_sys(e, errno, "drop capabilities");
	/* exec would give these in spite of the bounding set. */
	if (syscall(SYS_capget, &head, caps) < 0)
		return err_sys(e, errno, "capget");
	caps[0].inheritable = caps[1].inheritable = 0;
	if (syscall(SYS_capset, &head, caps) < 0 ||
		prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return err_sys(e, errno, "drop inheritable capabilities");
	return 0;
}

/* What a process keeps across exec: the host's name, the terminal, open files, keys. */
static int leave_behind(struct err *e)
{
	if (unshare(CLONE_NEWUTS) < 0 || sethostname("localhost", 9) < 0)
		return err_sys(e, errno, "host name");
	if (setsid() < 0)
		return err_sys(e, errno, "leave the terminal");
	if (syscall(SYS_close_range, 3, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
		return err_sys(e, errno, "close files");
	syscall(SYS_keyctl, 1 /* KEYCTL_JOIN_SESSION_KEYRING */, NULL);
	return 0;
}

int enter_root(const char *dir, char *const *argv, struct err *e)
{
	if (make_mounts(dir, e) < 0)
		return -1;
	if (chdir(dir) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
		umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return err_sys(e, errno, "leave the host's files");
	if (leave_behind(e) < 0 || drop_capabilities(e) < 0)
		return -1;
	execvp(argv[0], argv);
	return err_sys(e, errno, "%s", argv[0]);
}
