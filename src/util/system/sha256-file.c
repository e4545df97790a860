#include "util/system/sha256-file.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/auto.h"

enum { READ_SIZE = 1024 * 1024 };

int sha256_file(
	const struct op *op, int fd, const char *text, char ret_hex[SHA256_HEX + 1], struct err *e)
{
	auto_free uint8_t *part = malloc(READ_SIZE);
	struct sha256 s;
	struct stat st;
	off_t at = 0;

	if (!part)
		return err_oom(e);
	if (fstat(fd, &st) < 0)
		return err_sys(e, errno, "stat");
	sha256_start(&s);
	for (;;) {
		ssize_t got = pread(fd, part, READ_SIZE, at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_sys(e, errno, "read");
		if (got == 0)
			break;
		sha256_add(&s, part, (size_t)got);
		at += got;
		if (op_check(op, e) < 0)
			return -1;
		if (at % (32 * READ_SIZE) == 0) /* no progress for small files */
			op_progress(op, (uint64_t)at, (uint64_t)st.st_size, "%s", text);
	}
	sha256_end(&s, ret_hex);
	return 0;
}
