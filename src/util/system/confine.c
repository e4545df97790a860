#include "util/system/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/auto.h"

enum { ALONE = CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS };

/* Giving files to users takes these capabilities. */
static const int of_files[] = {CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID, CAP_SETFCAP};

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
enum { FILES_LIMITED = true };
#else
enum { FILES_LIMITED = false }; /* moat-disk is such a program, and a sanitizer maps terabytes */
#endif
#define IMAGE_MEMORY ((uint64_t)4 << 30)

static const struct confinement all[] = {
	{.name = "vm", .namespaces = ALONE, .device = "/dev/kvm"},
	{.name = "network", .whole_proc = true, .device = "/dev/net/tun"},
	{.name = "image", .namespaces = ALONE, .memory = IMAGE_MEMORY},
	{.name = "layers", .namespaces = ALONE, .memory = FILES_LIMITED ? IMAGE_MEMORY : 0},
	{.name = "files",
		.namespaces = ALONE,
		.memory = FILES_LIMITED ? IMAGE_MEMORY : 0,
		.kept = of_files,
		.n_kept = ARRAY_LEN(of_files)},
};

const struct confinement *confine_find(const char *name)
{
	for (unsigned i = 0; i < ARRAY_LEN(all); i++)
		if (strcmp(all[i].name, name) == 0)
			return &all[i];
	return NULL;
}

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
	/* This is root without CAP_SYS_ADMIN: in a user namespace it could not become another. */
	if (uid == 0)
		return -1;
	if (unshare(CLONE_NEWUSER | flags) < 0)
		return -1;
	return map_own_ids(uid, gid);
}

/* In a container there may be few ids. */
static bool id_exists(const char *map, uid_t id)
{
	auto_file FILE *f = fopen(map, "re");
	unsigned first, outside, count;

	while (f && fscanf(f, "%u %u %u", &first, &outside, &count) == 3)
		if (id >= first && id - first < count)
			return true;
	return false;
}

uid_t confine_id(void)
{
	char pid[24] = "";
	uid_t id;

	if (getuid() != 0)
		return getuid();
	/* /proc has the host's process numbers; getpid() has those of our pid namespace. */
	if (readlink("/proc/self", pid, sizeof(pid) - 1) <= 0 || atoi(pid) <= 0)
		return CONFINE_NOBODY;
	id = (uid_t)(CONFINE_IDS + atoi(pid));
	return id_exists("/proc/self/uid_map", id) && id_exists("/proc/self/gid_map", id)
		       ? id
		       : CONFINE_NOBODY;
}

static int become(uid_t id, gid_t group)
{
	return setgroups(group != CONFINE_NO_GROUP, &group) < 0 || setresgid(id, id, id) < 0 ||
			       setresuid(id, id, id) < 0
		       ? -1
		       : 0;
}

static int set_capabilities(const struct __user_cap_data_struct *data)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};

	return (int)syscall(SYS_capset, &head, data);
}

int confine_keep(const int *capabilities, unsigned n)
{
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};

	for (unsigned i = 0; i < n; i++)
		data[0].permitted |= 1u << capabilities[i];
	data[0].effective = data[0].inheritable = data[0].permitted;
	for (int c = 0; prctl(PR_CAPBSET_READ, c) >= 0; c++)
		if ((c >= 32 || !(data[0].permitted & 1u << c)) && prctl(PR_CAPBSET_DROP, c) < 0)
			return -1;
	if (set_capabilities(data) < 0)
		return -1;
	/* Programs that root of a namespace runs have them anyway. */
	for (unsigned i = 0; i < n; i++)
		if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capabilities[i], 0, 0) < 0)
			return -1;
	return 0;
}

int confine_rights(uid_t id, gid_t group)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	if (getuid() == 0 && become(id, group) < 0)
		return -1;
	/* A process that has made a user namespace has all capabilities inside it. */
	return set_capabilities((struct __user_cap_data_struct[_LINUX_CAPABILITY_U32S_3]){0});
}

static int limit_memory(uint64_t most)
{
	return setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) < 0 ||
			       setrlimit(RLIMIT_AS, &(struct rlimit){most, most}) < 0
		       ? -1
		       : 0;
}

static void limit(int resource, rlim_t most)
{
	struct rlimit now;

	if (getrlimit(resource, &now) == 0 && now.rlim_max > most)
		setrlimit(resource, &(struct rlimit){most, most});
}

void confine_limits(uint64_t memory, uint64_t file)
{
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_FSIZE, file);
	limit(RLIMIT_NPROC, 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	limit(RLIMIT_AS, memory);
#else
	(void)memory;
#endif
}

/* Root that could not leave the host's files would be no barrier at all. */
static int confine_root_user(const struct confinement *c, const char *file)
{
	if (unshare(CLONE_NEWNS) < 0 || confine_root(c, file, getuid()) < 0 ||
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		confine_keep(c->kept, c->n_kept) < 0 || confine_calls(false) < 0)
		return -1;
	return c->memory ? limit_memory(c->memory) : 0;
}

int confine_self(const struct confinement *c, const char *file)
{
	uid_t id = confine_id();
	gid_t group = CONFINE_NO_GROUP;
	struct stat st;

	if (c->n_kept)
		return confine_root_user(c, file);

	/* Without a root of its own the device is the host's, which its group may open. */
	if ((unshare(CLONE_NEWNS) < 0 || confine_root(c, file, id) < 0) && c->device &&
		stat(c->device, &st) == 0)
		group = st.st_gid;
	if (confine_rights(id, group) < 0 || confine_calls(false) < 0)
		return -1;
	return c->memory ? limit_memory(c->memory) : 0;
}
