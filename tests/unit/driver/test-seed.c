/* The cloud-init disk, read back by libarchive as a guest would. */
#include "driver/seed.h"

#include <archive.h>
#include <archive_entry.h>

#include "tap.h"
#include "scratch.h"

/* The content of one file of the image, or NULL. */
static char *file_in_iso(const char *path, const char *name)
{
	struct archive *a = archive_read_new();
	struct archive_entry *entry;
	char *text = NULL;

	archive_read_support_format_iso9660(a);
	if (archive_read_open_filename(a, path, 16384) == ARCHIVE_OK)
		while (!text && archive_read_next_header(a, &entry) == ARCHIVE_OK) {
			size_t n = (size_t)archive_entry_size(entry);

			if (strcmp(archive_entry_pathname(entry), name) != 0)
				continue;
			text = calloc(1, n + 1);
			if (text && archive_read_data(a, text, n) != (la_ssize_t)n)
				text[0] = 0;
		}
	archive_read_free(a);
	return text;
}

#define ISO_HAS(path, name, want)                                                                  \
	do {                                                                                       \
		auto_free char *got_ = file_in_iso(path, name);                                    \
		tap_str(got_, want, name);                                                         \
	} while (0)

/* The volume's name is 40 bytes into the primary descriptor, which is sector 16. */
static void label_is(const char *path, const char *want)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	char descriptor[73] = "";

	OK(fd >= 0 && pread(fd, descriptor, 72, 16 * 2048) == 72);
	OK(memcmp(descriptor + 1, "CD001", 5) == 0);
	descriptor[40 + strlen(want)] =
		descriptor[40 + strlen(want)] == ' ' ? 0 : descriptor[40 + strlen(want)];
	STR_IS(descriptor + 40, want);
}

int main(void)
{
	static char big[200000];
	char vm_name[] = "web", user[] = "#cloud-config\nhostname: \"\xc3\xbc\"\n",
	     meta[] = "a: b\n", net[] = "version: 2\n";
	struct cloud_init_spec ci = {.user_data = user};
	struct vm_spec vm = {.name = vm_name, .cloud_init = &ci};
	struct err e;

	scratch_begin();
	OK(seed_write(at("seed"), "abc123", &vm, &e) == 0);
	label_is(at("seed"), "CIDATA");
	ISO_HAS(at("seed"), "user-data", user);
	ISO_HAS(at("seed"), "meta-data", "instance-id: abc123-web\nlocal-hostname: web\n");
	ISO_HAS(at("seed"), "network-config", NULL);

	memset(big, 'x', sizeof(big) - 1);
	ci = (struct cloud_init_spec){.user_data = big, .meta_data = meta, .network_config = net};
	OK(seed_write(at("full"), "abc123", &vm, &e) == 0);
	ISO_HAS(at("full"), "user-data", big);
	ISO_HAS(at("full"), "meta-data", meta);
	ISO_HAS(at("full"), "network-config", net);

	ci = (struct cloud_init_spec){0};
	OK(seed_write(at("empty"), "abc123", &vm, &e) == 0);
	ISO_HAS(at("empty"), "user-data", "#cloud-config\n");

	OK(seed_write(at("no/such"), "abc123", &vm, &e) < 0 && strstr(e.msg, "cloud-init disk: "));
	scratch_end();
	return tap_done();
}
