#include "util/system/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -1;
	n = write(fd, text, strlen(text));
	close(fd);
	return n == (ssize_t)strlen(text) ? 0 : -1;
}

/* In a new user namespace we keep our own ids; no others are mapped. */
static int map_own_ids(uid_t uid, gid_t gid)
{
	char map[64];

	snprintf(map, sizeof(map), "%u %u 1", (unsigned)uid, (unsigned)uid);
	if (write_text("/proc/self/uid_map", map) < 0)
		return -1;
	if (write_text("/proc/self/setgroups", "deny") < 0 && errno != ENOENT)
		return -1;
	snprintf(map, sizeof(map), "%u %u 1", (unsigned)gid, (unsigned)gid);
	return write_text("/proc/self/gid_map", map);
}

int confine_namespaces(int flags)
{
	uid_t uid = getuid();
	gid_t gid = getgid();

	if (unshare(flags) == 0)
		return 0;
	/* This is root without CAP_SYS_ADMIN: in a user namespace it could not become nobody. */
	if (uid == 0)
		return -1;
	if (unshare(CLONE_NEWUSER | flags) < 0)
		return -1;
	return map_own_ids(uid, gid);
}

/* A process that has made a user namespace has all capabilities inside it. */
static int drop_capabilities(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};

	return (int)syscall(SYS_capset, &head, none);
}

int confine_rights(gid_t group)
{
	if (getuid() == 0 &&
		(setgroups(1, &group) < 0 ||
			setresgid(CONFINE_NOBODY, CONFINE_NOBODY, CONFINE_NOBODY) < 0 ||
			setresuid(CONFINE_NOBODY, CONFINE_NOBODY, CONFINE_NOBODY) < 0))
		return -1;
	return drop_capabilities();
}
