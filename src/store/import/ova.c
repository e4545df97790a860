#include "store/import/ova.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/import/download.h"
#include "store/import/ovf.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/str.h"

enum { ENTRIES_MAX = 4096, READ_BLOCK = 256 * 1024 };
static const int64_t disk_size_max = (int64_t)1 << 44; /* 16 TiB */

static void archive_freep(struct archive **a)
{
	if (*a)
		archive_read_free(*a);
}
#define auto_archive __attribute__((cleanup(archive_freep)))

static int fail_archive(struct archive *a, struct err *e)
{
	const char *text = archive_error_string(a);

	return err_set(e, ERR_INVALID, "not a good OVA: %s", text ? text : "unreadable");
}

/* Accepts only uncompressed tar, so that no more can come out than went in. */
static int open_tar(int fd, struct archive **ret, struct err *e)
{
	auto_archive struct archive *a = archive_read_new();

	if (!a)
		return err_oom(e);
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(e, errno, "seek");
	if (archive_read_support_format_tar(a) != ARCHIVE_OK ||
		archive_read_open_fd(a, fd, READ_BLOCK) != ARCHIVE_OK)
		return fail_archive(a, e);
	*ret = take_ptr(&a);
	return 0;
}

/* Returns 1 and the next regular file, with its name without directories; 0 at the end. */
static int next_file(const struct op *op, struct archive *a, unsigned *seen,
	struct archive_entry **ret, const char **ret_name, struct err *e)
{
	for (;;) {
		int rc = archive_read_next_header(a, ret);
		const char *path, *slash;

		if (rc == ARCHIVE_EOF)
			return 0;
		if (rc != ARCHIVE_OK && rc != ARCHIVE_WARN)
			return fail_archive(a, e);
		if (++*seen > ENTRIES_MAX)
			return err_set(
				e, ERR_INVALID, "not a good OVA: more than %d files", ENTRIES_MAX);
		if (op_check(op, e) < 0)
			return -1;
		path = archive_entry_pathname(*ret);
		if (!path || archive_entry_filetype(*ret) != AE_IFREG)
			continue;
		slash = strrchr(path, '/');
		*ret_name = slash ? slash + 1 : path;
		return 1;
	}
}

static int read_ovf(
	struct archive *a, struct archive_entry *entry, char ret_name[OVF_NAME_MAX], struct err *e)
{
	auto_buf struct buf b = {0};
	int64_t size = archive_entry_size(entry);
	uint8_t *room;
	ssize_t got;

	if (size <= 0 || size > OVF_SIZE_MAX)
		return err_set(
			e, ERR_INVALID, "its .ovf is empty or larger than %d bytes", OVF_SIZE_MAX);
	room = buf_room(&b, (size_t)size);
	if (!room)
		return err_oom(e);
	got = archive_read_data(a, room, (size_t)size);
	if (got < 0)
		return fail_archive(a, e);
	buf_grew(&b, (size_t)got);
	return ovf_first_disk(buf_bytes(&b), ret_name, e);
}

/* Chooses the file of the disk: as the .ovf says, or else the first .vmdk. */
static int choose(const struct op *op, int fd, char ret_name[OVF_NAME_MAX], struct err *e)
{
	auto_archive struct archive *a = NULL;
	struct archive_entry *entry;
	const char *name;
	unsigned seen = 0;
	bool found = false;
	int got;

	if (open_tar(fd, &a, e) < 0)
		return -1;
	while ((got = next_file(op, a, &seen, &entry, &name, e)) == 1) {
		if (str_ends(name, ".ovf"))
			return read_ovf(a, entry, ret_name, e);
		if (!found && str_ends(name, ".vmdk") && strlen(name) < OVF_NAME_MAX) {
			memcpy(ret_name, name, strlen(name) + 1);
			found = true;
		}
	}
	if (got == 0 && !found)
		return err_set(e, ERR_INVALID, "not an OVA: there is no .ovf and no .vmdk in it");
	return got;
}

/* Zeros need not be written: holes read as zeros. */
static bool is_zero(const char *p, size_t n)
{
	return n && !p[0] && memcmp(p, p + 1, n - 1) == 0;
}

static int copy_out(
	const struct op *op, struct archive *a, struct archive_entry *entry, int fd, struct err *e)
{
	int64_t size = archive_entry_size(entry), told = 0, at;
	const void *part;
	size_t n;
	int rc;

	if (size <= 0 || size > disk_size_max)
		return err_set(e, ERR_INVALID, "not a good OVA: its disk is empty or too large");
	while ((rc = archive_read_data_block(a, &part, &n, &at)) == ARCHIVE_OK) {
		if (at < 0 || at > size || n > (uint64_t)(size - at))
			return err_set(e, ERR_INVALID, "not a good OVA: data beyond its end");
		if ((!is_zero(part, n) && file_write_at(fd, part, n, at, e) < 0) ||
			op_check(op, e) < 0)
			return -1;
		if (at - told >= 16 * 1024 * 1024) {
			told = at;
			op_progress(op, (uint64_t)at, (uint64_t)size, "unpacking the disk");
		}
	}
	if (rc != ARCHIVE_EOF)
		return fail_archive(a, e);
	if (ftruncate(fd, size) < 0)
		return err_sys(e, errno, "truncate");
	return 0;
}

/* In a directory that is closed to others. All may read the file itself: qemu-img does so as a user
 * of its own, where we are root. */
static int create(const char *path, int flags)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);

	if (fd >= 0 && fchmod(fd, 0644) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

int ova_extract_disk(const struct op *op, int ova_fd, const char *path, struct err *e)
{
	auto_archive struct archive *a = NULL;
	auto_fd int fd = -1;
	char wanted[OVF_NAME_MAX], shown[OVF_NAME_MAX];
	struct archive_entry *entry;
	const char *name;
	unsigned seen = 0;
	int got;

	if (choose(op, ova_fd, wanted, e) < 0 || open_tar(ova_fd, &a, e) < 0)
		return -1;
	while ((got = next_file(op, a, &seen, &entry, &name, e)) == 1) {
		if (strcmp(name, wanted) != 0)
			continue;
		fd = create(path, O_EXCL);
		if (fd < 0)
			return err_sys(e, errno, "%s", path);
		return copy_out(op, a, entry, fd, e);
	}
	str_escape(wanted, strlen(wanted), shown, sizeof(shown));
	if (got == 0)
		return err_set(e, ERR_INVALID, "not a good OVA: there is no %s in it", shown);
	return -1;
}

/* ---- a disk in a compressed tar file on the web ---- */

struct feed {
	struct download *download;
	const struct op *op;
	struct err *e;
	bool failed; /* the download failed, as e says */
};

static la_ssize_t feed_read(struct archive *a, void *arg, const void **ret)
{
	struct feed *f = arg;
	ssize_t n = download_read(f->download, f->op, "downloading the disk", ret, f->e);

	if (n < 0) {
		f->failed = true;
		archive_set_error(a, EIO, "%s", f->e->msg);
	}
	return n;
}

static bool know_packed_tar(struct archive *a)
{
	return archive_read_support_filter_xz(a) == ARCHIVE_OK &&
	       archive_read_support_filter_gzip(a) == ARCHIVE_OK &&
	       archive_read_support_format_tar(a) == ARCHIVE_OK;
}

static int unpack_raw(const struct op *op, struct archive *a, const char *path, struct err *e)
{
	struct archive_entry *entry;
	const char *name;
	unsigned seen = 0;
	int got;

	while ((got = next_file(op, a, &seen, &entry, &name, e)) == 1) {
		auto_fd int fd = -1;

		if (!str_ends(name, ".raw"))
			continue;
		fd = create(path, O_TRUNC);
		if (fd < 0)
			return err_sys(e, errno, "%s", path);
		return copy_out(op, a, entry, fd, e);
	}
	return got < 0 ? -1 : err_set(e, ERR_INVALID, "there is no raw disk in it");
}

int ova_unpack_disk(const struct op *op, int tar_fd, const char *path, struct err *e)
{
	auto_archive struct archive *a = archive_read_new();

	if (!a)
		return err_oom(e);
	if (lseek(tar_fd, 0, SEEK_SET) < 0 || !know_packed_tar(a) ||
		archive_read_open_fd(a, tar_fd, 1 << 20) != ARCHIVE_OK)
		return fail_archive(a, e);
	return unpack_raw(op, a, path, e);
}

int ova_fetch_disk(
	const struct op *op, const char *url, uint64_t max, const char *path, struct err *e)
{
	auto_archive struct archive *a = archive_read_new();
	auto_download struct download *d = NULL;
	struct err why;
	struct feed f = {.op = op, .e = &why};

	if (!a)
		return err_oom(e);
	if (download_open(url, 0, max, &d, e) < 0)
		return -1;
	f.download = d;
	if (!know_packed_tar(a) || archive_read_open(a, &f, NULL, feed_read, NULL) != ARCHIVE_OK)
		fail_archive(a, e);
	else if (unpack_raw(op, a, path, e) == 0)
		return 0;
	unlink(path);
	if (f.failed)
		*e = why;
	else if (e->kind == ERR_INVALID && archive_error_string(a))
		err_set(e, ERR_INVALID, "it cannot be unpacked: %s", archive_error_string(a));
	return err_wrap(e, "%s", url);
}
