/* Archives for an initramfs: libarchive reads what is written, and what is in them is found. */
#include <archive.h>
#include <archive_entry.h>
#include <string.h>
#include <sys/stat.h>

#include "store/disk/cpio.h"
#include "tap.h"

static void make(struct buf *b)
{
	cpio_put(b, &(struct cpio_entry){.path = "etc", .mode = S_IFDIR | 0755, .inode = 1});
	cpio_put(b, &(struct cpio_entry){.path = "etc/odd",
			    .mode = S_IFREG | 04750,
			    .uid = 1000,
			    .gid = 4294967294u,
			    .mtime = 1700000000,
			    .inode = 2,
			    .content = {(const uint8_t *)"flag{x}", 7}});
	cpio_put(b, &(struct cpio_entry){.path = "empty", .mode = S_IFREG | 0600, .inode = 3});
	cpio_end(b);
}

static void test_read(void)
{
	struct archive *a = archive_read_new();
	struct archive_entry *entry;
	struct buf b = {0};
	char content[16] = "";

	make(&b);
	archive_read_support_format_cpio(a);
	OK(archive_read_open_memory(a, buf_data(&b), b.len) == ARCHIVE_OK);
	OK(archive_read_next_header(a, &entry) == ARCHIVE_OK &&
		strcmp(archive_entry_pathname(entry), "etc") == 0 &&
		archive_entry_mode(entry) == (S_IFDIR | 0755));
	OK(archive_read_next_header(a, &entry) == ARCHIVE_OK &&
		strcmp(archive_entry_pathname(entry), "etc/odd") == 0);
	OK(archive_entry_mode(entry) == (S_IFREG | 04750) && archive_entry_uid(entry) == 1000 &&
		archive_entry_gid(entry) == 4294967294 && archive_entry_mtime(entry) == 1700000000);
	OK(archive_read_data(a, content, sizeof(content)) == 7 && strcmp(content, "flag{x}") == 0);
	OK(archive_read_next_header(a, &entry) == ARCHIVE_OK && archive_entry_size(entry) == 0);
	OK(archive_read_next_header(a, &entry) == ARCHIVE_EOF);
	archive_read_free(a);
	buf_free(&b);
}

static void test_has(void)
{
	struct buf b = {0};
	struct bytes all;

	make(&b);
	buf_put(&b, (char[512]){0}, 512); /* as cpio pads its archives */
	cpio_put(&b, &(struct cpio_entry){.path = "./home/user", .mode = S_IFDIR | 0700});
	cpio_end(&b);
	all = buf_bytes(&b);
	OK(cpio_has(all, "etc"));
	OK(cpio_has(all, "etc/odd"));
	OK(!cpio_has(all, "etc/od"));
	OK(!cpio_has(all, "etc/odder"));
	OK(cpio_has(all, "home/user")); /* in the second archive */
	OK(!cpio_has(all, "home"));
	OK(!cpio_has((struct bytes){all.p, 60}, "etc"));
	OK(!cpio_has((struct bytes){(const uint8_t *)"\x1f\x8b", 2}, "etc"));
	OK(!cpio_has((struct bytes){0}, "etc"));
	buf_free(&b);
}

int main(void)
{
	test_read();
	test_has();
	return tap_done();
}
