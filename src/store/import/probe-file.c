#include "store/import/probe-file.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/auto.h"

int probe_file(int fd, const char *name, enum probe_kind *ret, struct err *e)
{
	auto_free uint8_t *head = malloc(PROBE_HEAD);
	struct probe_in in = {.name = name};
	struct stat st;
	ssize_t got;

	if (!head)
		return err_oom(e);
	got = pread(fd, head, PROBE_HEAD, 0);
	if (got < 0 || fstat(fd, &st) < 0)
		return err_sys(e, errno, "read");
	in.head = (struct bytes){head, (size_t)got};
	in.size = (uint64_t)st.st_size;
	return probe_disk(&in, ret, e);
}
