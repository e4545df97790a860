#include "util/system/group.h"

#include <ctype.h>
#include <dirent.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/thread/op.h"

/* A pidfd becomes readable when the process has closed all its files. The group is looked at again,
 * as another process may have got the number by now. */
static void wait_for_member(const struct op *op, pid_t pid, pid_t group)
{
	auto_fd int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct err ignored;

	if (fd >= 0 && getpgid(pid) == group)
		op_wait_fd(op, fd, POLLIN, &ignored);
}

void group_wait(pid_t group, int milliseconds)
{
	struct op op = op_for_cleanup(milliseconds / 1000.0);
	auto_dir DIR *d = opendir("/proc");
	struct dirent *entry;

	while (d && (entry = readdir(d))) {
		pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;

		if (pid > 0 && pid != group && getpgid(pid) == group)
			wait_for_member(&op, pid, group);
	}
}
