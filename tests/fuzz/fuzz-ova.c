/* fuzz-ova.c - an OVA as somebody gave it to us: libarchive unpacks its disk. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/import/ova.h"
#include "store/import/ovf.h"
#include "util/auto.h"
#include "util/system/io.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Nothing is compressed in there, so no more can be written than came in. */
static void check_disk(const char *path, size_t size)
{
	struct stat st;

	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) || (st.st_mode & 0777) != 0644)
		abort();
	/* In pages, of which the first and the last may hold few bytes. */
	if ((uint64_t)st.st_blocks * 512 > 2 * ((uint64_t)size + 8192) * 8)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct op op = op_for_cleanup(60);
	char path[64];
	auto_fd int fd = memfd_create("ova", MFD_CLOEXEC);
	struct err e;

	if (fd < 0 || file_write_at(fd, data, size, 0, &e) < 0)
		abort();
	snprintf(path, sizeof(path), "/dev/shm/moat-fuzz-ova-%d", (int)getpid());
	unlink(path);
	if (ova_extract_disk(&op, fd, path, &e) == 0)
		check_disk(path, size);
	else if (e.kind != ERR_INVALID)
		abort();
	unlink(path);
	return 0;
}
