/*
 * moat-disk.c - the program moat-disk. For the recipe that changes an image (share/recipes/change):
 * `unpack DISK OFFSET DIR` takes the files out of an ext4 file system, which may mean harm: what
 * reads it keeps nothing but the disk and the directory, and the rights over files. `enter DIR
 * COMMAND...` runs a program among them. For container images: `layers DISK MAX LAYER...` puts
 * layers into one, `mapped WORK STORAGE COMMAND...` runs what builds them. A program of its own,
 * because nothing else needs libext2fs.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "store/tree/enter.h"
#include "store/tree/layers.h"
#include "store/tree/mapped.h"
#include "store/tree/unpack.h"
#include "util/auto.h"
#include "util/system/confine.h"

/* Whoever calls us has put us into a pid namespace: no other process can be reached. */
static int confine(struct err *e)
{
	confine_namespaces(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS);
	if (confine_self(confine_find("files"), NULL) < 0)
		return err_sys(e, errno, "leave the host's files");
	return 0;
}

static int unpack(char **args, struct err *e)
{
	auto_fd int from = -1, to = -1;
	char *end, disk[32];
	unsigned long long offset = strtoull(args[1], &end, 10);

	/* The caller's other files are the build's, or whoever's. */
	if (syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0) < 0)
		return err_sys(e, errno, "close files");
	if ((from = open(args[0], O_RDONLY | O_CLOEXEC)) < 0)
		return err_sys(e, errno, "%s", args[0]);
	if ((to = open(args[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 || *end)
		return err_sys(e, to < 0 ? errno : EINVAL, "%s", args[2]);
	snprintf(disk, sizeof(disk), "/proc/self/fd/%d", from);
	return confine(e) < 0 ? -1 : unpack_ext4(disk, offset, to, e);
}

static int layers(char **args, struct err *e)
{
	char *end;
	unsigned long long max = strtoull(args[1], &end, 10);

	if (*end)
		return err_sys(e, EINVAL, "%s", args[1]);
	return layers_apply(args[0], max, args + 2, e);
}

int main(int argc, char **argv)
{
	struct err e;
	int rc;

	if (argc == 5 && strcmp(argv[1], "unpack") == 0) {
		rc = unpack(argv + 2, &e);
	} else if (argc >= 4 && strcmp(argv[1], "enter") == 0) {
		rc = enter_root(argv[2], argv + 3, &e);
	} else if (argc >= 4 && strcmp(argv[1], "layers") == 0) {
		rc = layers(argv + 2, &e);
	} else if (argc >= 5 && strcmp(argv[1], "mapped") == 0) {
		rc = mapped_run(argv[2], argv[3], argv + 4, &e);
	} else {
		fprintf(stderr, "moat-disk is internal to moat\n");
		return 2;
	}
	if (rc < 0)
		fprintf(stderr, "%s\n", e.msg);
	/* A leak checker would look at us as a debugger does, which we may not any more. */
	_exit(fflush(stdout) != 0 || rc < 0);
}
