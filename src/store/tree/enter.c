#include "store/tree/enter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
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

/* Where moat runs as root, these would be the machine's own settings. */
static int cover_proc(const char *dir, struct err *e)
{
	static const char *const settings[] = {"sys", "sysrq-trigger", "irq", "bus", "acpi"};
	struct mount_attr read_only = {.attr_set = MOUNT_ATTR_RDONLY};
	char to[512];

	for (unsigned i = 0; i < ARRAY_LEN(settings); i++) {
		snprintf(to, sizeof(to), "%s/proc/%s", dir, settings[i]);
		if (access(to, F_OK) < 0)
			continue;
		/* glibc has had mount_setattr since 2.36. */
		if (mount(to, to, NULL, MS_BIND | MS_REC, NULL) < 0 ||
			syscall(SYS_mount_setattr, AT_FDCWD, to, AT_RECURSIVE, &read_only,
				sizeof(read_only)) < 0)
			return err_sys(e, errno, "%s", to);
	}
	return 0;
}

static int make_mounts(const char *dir, struct err *e)
{
	char to[512];

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount(dir, dir, NULL, MS_BIND, NULL) < 0)
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

int enter_root(const char *dir, char *const *argv, struct err *e)
{
	if (make_mounts(dir, e) < 0)
		return -1;
	if (chdir(dir) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
		umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return err_sys(e, errno, "leave the host's files");
	for (int i = 0; prctl(PR_CAPBSET_READ, i) >= 0; i++)
		if (!is_kept(i) && prctl(PR_CAPBSET_DROP, i) < 0)
			return err_sys(e, errno, "drop capabilities");
	/* A key that was made outside must not be found inside. */
	syscall(SYS_keyctl, 1 /* KEYCTL_JOIN_SESSION_KEYRING */, NULL);
	execvp(argv[0], argv);
	return err_sys(e, errno, "%s", argv[0]);
}
