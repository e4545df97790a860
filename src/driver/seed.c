#include "driver/seed.h"

#include <archive.h>
#include <archive_entry.h>
#include <string.h>
#include <sys/stat.h>

#include "util/auto.h"
#include "util/str.h"

static void archive_freep(struct archive **a)
{
	archive_write_free(*a);
}

static int fail(struct archive *a, struct err *e)
{
	return err_set(e, ERR_INTERNAL, "cloud-init disk: %s", archive_error_string(a));
}

static int add_file(struct archive *a, const char *name, const char *text, struct err *e)
{
	struct archive_entry *entry = archive_entry_new();
	size_t len = strlen(text);
	bool good;

	if (!entry)
		return err_oom(e);
	archive_entry_set_pathname(entry, name);
	archive_entry_set_filetype(entry, AE_IFREG);
	archive_entry_set_perm(entry, 0644);
	archive_entry_set_size(entry, (la_int64_t)len);
	good = archive_write_header(a, entry) == ARCHIVE_OK &&
	       archive_write_data(a, text, len) == (la_ssize_t)len;
	archive_entry_free(entry);
	return good ? 0 : fail(a, e);
}

int seed_write(const char *path, const char *instance_id, const struct vm_spec *vm, struct err *e)
{
	__attribute__((cleanup(archive_freep))) struct archive *a = archive_write_new();
	const struct cloud_init_spec *ci = vm->cloud_init;
	auto_free char *meta = NULL;

	if (!a)
		return err_oom(e);
	/* cloud-init wants an instance id; what the user gives comes as it is. */
	if (!ci->meta_data && str_printf(&meta, e, "instance-id: %s-%s\nlocal-hostname: %s\n",
				      instance_id, vm->name, vm->name) < 0)
		return -1;
	if (archive_write_set_format_iso9660(a) != ARCHIVE_OK ||
		archive_write_set_format_option(a, "iso9660", "volume-id", "CIDATA") !=
			ARCHIVE_OK ||
		archive_write_set_format_option(a, "iso9660", "rockridge", "useful") !=
			ARCHIVE_OK ||
		archive_write_open_filename(a, path) != ARCHIVE_OK)
		return fail(a, e);
	if (add_file(a, "meta-data", ci->meta_data ? ci->meta_data : meta, e) < 0 ||
		add_file(a, "user-data", ci->user_data ? ci->user_data : "#cloud-config\n", e) < 0)
		return -1;
	if (ci->network_config && add_file(a, "network-config", ci->network_config, e) < 0)
		return -1;
	return archive_write_close(a) == ARCHIVE_OK ? 0 : fail(a, e);
}
