#include "net/memfd.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "util/auto.h"

int net_memfd(const char *name, const void *p, size_t n, int *ret, struct err *e)
{
	auto_fd int fd = memfd_create(name, MFD_CLOEXEC);
	const char *at = p;

	if (fd < 0)
		return err_sys(e, errno, "memfd");
	while (n) {
		ssize_t done = write(fd, at, n);

		if (done < 0)
			return err_sys(e, errno, "memfd");
		at += done;
		n -= (size_t)done;
	}
	*ret = take_fd(&fd);
	return 0;
}
