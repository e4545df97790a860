/*
 * Every QEMU and its guard carry `-name moat-ID/VM` on their command line. That is how a new daemon
 * finds what an earlier one left, without having to trust a process number that another process
 * may have by now.
 */
#include "driver/qemu/stamp.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/system/io.h"

enum { ARGS_MAX = 256 * 1024 };

/* Whether "-name" is followed by the stamp in this NUL-separated command line. */
static bool carries(const char *args, size_t len, const char *stamp)
{
	const char *end = args + len;
	bool after_name = false;

	for (const char *at = args; at < end; at += strlen(at) + 1) {
		if (after_name)
			return strncmp(at, stamp, strlen(stamp)) == 0;
		after_name = strcmp(at, "-name") == 0;
	}
	return false;
}

static bool is_ours(const char *pid, const char *stamp)
{
	auto_free char *args = NULL;
	char path[64];
	struct err ignored;
	size_t len;

	snprintf(path, sizeof(path), "/proc/%.20s/cmdline", pid);
	return file_read(path, ARGS_MAX, &args, &len, &ignored) == 0 && carries(args, len, stamp);
}

/*
 * 1: the process was ours and has ended. The pidfd is opened before the second look, so that no
 * other process can get the number in between. A process that we may not signal is not ours,
 * whatever its command line says.
 */
static int end_process(const struct op *op, const char *pid, const char *stamp, struct err *e)
{
	auto_fd int fd = (int)syscall(SYS_pidfd_open, atoi(pid), 0);

	if (fd < 0 || !is_ours(pid, stamp))
		return 0;
	if (syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) < 0 && errno != ESRCH)
		return errno == EPERM ? 0 : err_sys(e, errno, "cannot end process %s", pid);
	return op_wait_fd(op, fd, POLLIN, e) < 0 ? -1 : 1;
}

int qemu_kill_stamped(const struct op *op, const char *sandbox, unsigned *ret_found, struct err *e)
{
	auto_dir DIR *d = opendir("/proc");
	char stamp[80];
	unsigned found = 0;
	struct dirent *ent;

	snprintf(stamp, sizeof(stamp), "moat-%s/", sandbox);
	if (!d)
		return err_sys(e, errno, "/proc");
	while ((ent = readdir(d))) {
		int ended;

		if (!isdigit((unsigned char)ent->d_name[0]) || !is_ours(ent->d_name, stamp))
			continue;
		ended = end_process(op, ent->d_name, stamp, e);
		if (ended < 0)
			return -1;
		found += (unsigned)ended;
	}
	*ret_found = found;
	return 0;
}
