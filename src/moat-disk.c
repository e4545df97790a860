/*
 * moat-disk.c - the program moat-disk. For the recipe that changes an image (share/recipes/change):
 * `unpack DISK OFFSET DIR` takes the files out of an ext4 file system, `enter DIR COMMAND...` runs
 * a program among them. For container images: `layers DISK MAX LAYER...` puts layers into one. A
 * program of its own, because nothing else needs libext2fs.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "store/tree/enter.h"
#include "store/tree/layers.h"
#include "store/tree/unpack.h"
#include "util/auto.h"

static int unpack(char **args, struct err *e)
{
	auto_fd int to = open(args[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char *end;
	unsigned long long offset = strtoull(args[1], &end, 10);

	if (to < 0 || *end)
		return err_sys(e, to < 0 ? errno : EINVAL, "%s", args[2]);
	return unpack_ext4(args[0], offset, to, e);
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
	} else {
		fprintf(stderr, "moat-disk is internal to moat\n");
		return 2;
	}
	if (rc < 0)
		fprintf(stderr, "%s\n", e.msg);
	return rc < 0;
}
