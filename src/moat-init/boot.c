/*
 * How it works: the kernel has unpacked an initramfs with modules (share/recipes/container.sh),
 * this program and the runner (driver/qemu/vm/container.c). The disk becomes the root; what is
 * needed of the initramfs stays: the modules are seen at their usual place, the programs are held
 * open. The image may lack any directory, and any of them may be a link: so all is mounted once it
 * is the root.
 */
#include "moat-init/boot.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "moat-init/common/files.h"
#include "moat-init/modules.h"
#include "util/auto.h"

#define SELF   "/moat/init"
#define RUNNER "/moat/guest"
#define HELPER "moat-modprobe" /* beside the modules: this program as the kernel's modprobe */

/* From linux/mount.h, which musl's headers do not have. */
#ifndef SYS_open_tree
#define SYS_open_tree  428
#define SYS_move_mount 429
#endif
enum { TREE_CLONE = 1, TREE_CLOEXEC = O_CLOEXEC, MOVE_EMPTY_PATH = 4 };

/* From linux/fs.h, and from a header that only the kernel's ext4 has. */
#define GET_SIZE _IOR(0x12, 114, size_t)
#define RESIZE   _IOW('f', 16, uint64_t)

enum { ROOT_TRIES = 100, ROOT_PAUSE_MS = 20 };

static void mount_at(const char *type, const char *path, unsigned long flags, const char *options)
{
	make_dirs(path);
	if (mount(type, path, type, flags, options) < 0)
		say("%s cannot be mounted: %s", path, strerror(errno));
}

static void load_drivers(void)
{
	static const char *const names[] = {"virtio_pci", "virtio_blk", "virtio_console",
		"virtio_net", "virtio_rng", "vmgenid", "crc32c_intel", "ext4"};

	put_text("/proc/sys/kernel/modprobe", SELF);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		module_load(names[i]);
	/* Whatever else a spec has given it: other controllers, other NICs. */
	modules_for_bus("pci");
}

/* A spec may ask for a larger disk than the image has. */
static void grow_root(const char *disk)
{
	auto_fd int device = open(disk, O_RDONLY | O_CLOEXEC);
	auto_fd int root = open("/root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint64_t bytes, blocks;
	struct statfs fs;

	if (device < 0 || root < 0 || ioctl(device, GET_SIZE, &bytes) < 0 || fstatfs(root, &fs) < 0)
		return;
	blocks = bytes / (uint64_t)fs.f_bsize;
	if (ioctl(root, RESIZE, &blocks) < 0 && errno != EBUSY)
		say("the file system does not grow: %s", strerror(errno));
}

/* The disk may be behind any controller, whose driver may still be busy. */
static bool mount_root(void)
{
	static const char *const disks[] = {"/dev/vda", "/dev/sda", "/dev/hda"};

	for (int tries = 0; tries < ROOT_TRIES; tries++) {
		for (size_t i = 0; i < ARRAY_LEN(disks); i++)
			if (mount(disks[i], "/root", "ext4", 0, NULL) == 0) {
				grow_root(disks[i]);
				return true;
			}
		if (tries == 1) {
			module_load("sd_mod");
			modules_for_bus("scsi");
		}
		poll(NULL, 0, ROOT_PAUSE_MS);
	}
	return false;
}

/* The modules as a tree that can be mounted anywhere. This program is put among them. */
static int take_modules(void)
{
	char path[256];
	struct utsname u;

	uname(&u);
	snprintf(path, sizeof(path), MODULES "/%s/" HELPER, u.release);
	if (link(SELF, path) < 0)
		say("%s: %s", path, strerror(errno));
	snprintf(path, sizeof(path), MODULES "/%s", u.release);
	return (int)syscall(SYS_open_tree, AT_FDCWD, path, TREE_CLONE | TREE_CLOEXEC);
}

static void give_modules(int tree)
{
	char path[256];
	struct utsname u;

	uname(&u);
	snprintf(path, sizeof(path), MODULES "/%s", u.release);
	make_dirs(path);
	if (tree < 0 || syscall(SYS_move_mount, tree, "", AT_FDCWD, path, MOVE_EMPTY_PATH) < 0) {
		say("no kernel modules at %s: %s", path, strerror(errno));
		return;
	}
	snprintf(path, sizeof(path), MODULES "/%s/" HELPER, u.release);
	put_text("/proc/sys/kernel/modprobe", path);
}

static void make_node(const char *path, mode_t mode, unsigned major, unsigned minor)
{
	if (mknod(path, S_IFCHR | mode, makedev(major, minor)) == 0)
		chmod(path, mode);
}

/* Nodes of devices whose drivers are loaded when somebody opens them, and links that programs
 * expect. */
static void fill_dev(void)
{
	make_dirs("/dev/net");
	make_node("/dev/net/tun", 0666, 10, 200);
	make_node("/dev/fuse", 0666, 10, 229);
	make_node("/dev/loop-control", 0660, 10, 237);
	if (symlink("/proc/self/fd", "/dev/fd") < 0 ||
		symlink("/proc/self/fd/0", "/dev/stdin") < 0 ||
		symlink("/proc/self/fd/1", "/dev/stdout") < 0 ||
		symlink("/proc/self/fd/2", "/dev/stderr") < 0)
		say("/dev lacks a link: %s", strerror(errno));
}

static void mount_all(void)
{
	mount_at("proc", "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	mount_at("sysfs", "/sys", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	mount_at("devtmpfs", "/dev", MS_NOSUID, "mode=755");
	mount_at("devpts", "/dev/pts", MS_NOSUID | MS_NOEXEC, "gid=5,mode=620,ptmxmode=666");
	mount_at("tmpfs", "/dev/shm", MS_NOSUID | MS_NODEV, "mode=1777,size=64m");
	mount_at("mqueue", "/dev/mqueue", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	mount_at("cgroup2", "/sys/fs/cgroup", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	fill_dev();
	make_dirs("/tmp");
	make_dirs("/etc");
}

static void loopback_up(void)
{
	auto_fd int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq req = {.ifr_name = "lo"};

	if (sock < 0 || ioctl(sock, SIOCGIFFLAGS, &req) < 0)
		return;
	req.ifr_flags |= IFF_UP;
	ioctl(sock, SIOCSIFFLAGS, &req);
}

static bool enter_root(void)
{
	umount2("/dev", MNT_DETACH);
	umount2("/sys", MNT_DETACH);
	umount2("/proc", MNT_DETACH);
	return chdir("/root") == 0 && mount(".", "/", NULL, MS_MOVE, NULL) == 0 &&
	       chroot(".") == 0 && chdir("/") == 0;
}

int boot(void)
{
	auto_fd int runner = open(RUNNER, O_RDONLY | O_CLOEXEC);
	auto_fd int modules = -1;

	umask(0);
	mount_at("proc", "/proc", 0, NULL);
	mount_at("sysfs", "/sys", 0, NULL);
	mount_at("devtmpfs", "/dev", 0, NULL);
	say_open();
	load_drivers();
	if (!mount_root()) {
		say("there is no disk with an ext4 file system");
		return -1;
	}
	modules = take_modules();
	if (!enter_root()) {
		say("the disk cannot become the root: %s", strerror(errno));
		return -1;
	}
	mount_all();
	give_modules(modules);
	loopback_up();
	/* Ping without rights, and ports below 1024 for every user, as containers have them. */
	put_text("/proc/sys/net/ipv4/ping_group_range", "0 2147483647");
	put_text("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
	umask(022);
	if (runner < 0)
		say(RUNNER " is missing");
	return take_fd(&runner);
}
