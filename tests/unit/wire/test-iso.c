/* ISO images that we made, read by libarchive; and the places on which the runner relies. */
#include "wire/iso.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"

static uint8_t image[ISO_HEAD + 16 * ISO_SECTOR];

static size_t make(const struct iso_disc *d)
{
	memset(image, 0, sizeof(image));
	iso_head(d, image);
	for (size_t i = 0; i < d->n_files; i++)
		memset(image + iso_file_offset(d, i), 'a' + (int)i, (size_t)d->files[i].size);
	return (size_t)iso_file_offset(d, d->n_files);
}

/* The size of a file whose bytes are all as make() wrote them; -1: there is no such file. */
static long size_in(size_t len, const char *name, char content)
{
	struct archive *a = archive_read_new();
	struct archive_entry *entry;
	char bytes[4096];
	long found = -1;

	archive_read_support_format_iso9660(a);
	OK(archive_read_open_memory(a, image, len) == ARCHIVE_OK);
	while (archive_read_next_header(a, &entry) == ARCHIVE_OK) {
		la_ssize_t n;

		if (strcmp(archive_entry_pathname(entry), name) != 0)
			continue;
		found = 0;
		while ((n = archive_read_data(a, bytes, sizeof(bytes))) > 0)
			for (la_ssize_t i = 0; i < n; i++)
				found = found >= 0 && bytes[i] == content ? found + 1 : -1;
	}
	archive_read_free(a);
	return found;
}

static void test_files(void)
{
	struct iso_disc d = {.volume = "SOME",
		.files = {{"user-data", 5}, {"none", 0}, {"Long-name.that_stays", 5000},
			{"z", 2048}},
		.n_files = 4};
	size_t len = make(&d);

	OK(iso_file_offset(&d, 0) == ISO_HEAD);
	OK(iso_file_offset(&d, 1) == ISO_HEAD + ISO_SECTOR &&
		iso_file_offset(&d, 2) == iso_file_offset(&d, 1));
	OK(len == ISO_HEAD + (1 + 3 + 1) * ISO_SECTOR);
	OK(size_in(len, "user-data", 'a') == 5);
	OK(size_in(len, "none", 'b') == 0);
	OK(size_in(len, "Long-name.that_stays", 'c') == 5000);
	OK(size_in(len, "z", 'd') == 2048);
	OK(size_in(len, "USER-DATA", 'a') == -1);
}

/* The runner looks for the volume's name at a fixed place, and begins to read at another. */
static void test_name(void)
{
	static const char name[] = "0123456789ABCDEF0123456789ABCDEF";
	struct iso_disc d = {.volume = name, .files = {{"moat", 100}}, .n_files = 1};

	make(&d);
	OK(memcmp(image + ISO_PVD, "\1CD001", 6) == 0);
	OK(memcmp(image + ISO_PVD + ISO_VOLUME_AT, name, ISO_VOLUME_MAX) == 0);
	OK(image[ISO_HEAD - 1] == 0 && image[ISO_HEAD] == 'a' && image[ISO_HEAD + 99] == 'a');
	d.volume = "AB";
	make(&d);
	OK(memcmp(image + ISO_PVD + ISO_VOLUME_AT, "AB                              ", 32) == 0);
}

int main(void)
{
	test_files();
	test_name();
	return tap_done();
}
