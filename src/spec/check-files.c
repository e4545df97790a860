#include "spec/check-files.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "spec/text.h"

/* What a system mounts there hides the disk. */
static const char *const hidden[] = {"/dev", "/proc", "/sys", "/run"};

/* The name that ends an archive, in which files reach an initramfs and a disk. */
#define TRAILER "/TRAILER!!!"

static bool is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 && (path[n] == '/' || !path[n]);
}

static const char *wrong_path(const char *path)
{
	const char *why = text_wrong_path(path);

	if (why)
		return why;
	if (is_below(path, TRAILER))
		return "has the name that ends an archive at its beginning";
	for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
		if (is_below(path, hidden[i]))
			return "is where a system mounts something over the disk";
	return NULL;
}

static bool fits(const char *digits)
{
	return strtoull(digits, NULL, 10) < UINT32_MAX;
}

static int check_file(const struct vm_spec *vm, size_t i, size_t k, struct err *e)
{
	const struct file_spec *f = &vm->files[k];
	const char *why = wrong_path(f->path);

	if (why)
		return spec_err(e, SPEC_PLACE("vms[%zu].files[%zu].path", i, k), "%s", why);
	if ((f->content != NULL) + (f->content_base64 != NULL) + (f->host_file != NULL) != 1)
		return spec_err(e, SPEC_PLACE("vms[%zu].files[%zu]", i, k),
			"needs exactly one of \"content\", \"content_base64\" and \"host_file\"");
	if (f->content_base64 && strlen(f->content_base64) % 4 != 0)
		return spec_err(e, SPEC_PLACE("vms[%zu].files[%zu].content_base64", i, k),
			"is cut short: its length is no multiple of 4");
	if (!fits(f->owner) || !fits(strchr(f->owner, ':') + 1))
		return spec_err(e, SPEC_PLACE("vms[%zu].files[%zu].owner", i, k),
			"is larger than 4294967294");
	for (size_t earlier = 0; earlier < k; earlier++)
		if (strcmp(vm->files[earlier].path, f->path) == 0)
			return spec_err(e, SPEC_PLACE("vms[%zu].files[%zu].path", i, k),
				"is that of files[%zu], too", earlier);
	return 0;
}

int spec_check_files(const struct sandbox_spec *s, struct err *e)
{
	for (size_t i = 0; i < s->n_vms; i++)
		for (size_t k = 0; k < s->vms[i].n_files; k++)
			if (check_file(&s->vms[i], i, k, e) < 0)
				return -1;
	return 0;
}
