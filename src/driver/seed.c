#include "driver/seed.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/buf.h"
#include "wire/iso.h"
#include "util/str.h"

static int make_image(
	const struct iso_disc *d, const char *const *texts, struct buf *b, struct err *e)
{
	size_t size = (size_t)iso_file_offset(d, d->n_files);
	uint8_t *p = buf_room(b, size);

	if (!p)
		return err_oom(e);
	memset(p, 0, size);
	iso_head(d, p);
	for (size_t i = 0; i < d->n_files; i++)
		memcpy(p + iso_file_offset(d, i), texts[i], (size_t)d->files[i].size);
	buf_grew(b, size);
	return 0;
}

static int write_file(const char *path, struct bytes content, struct err *e)
{
	auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	while (fd >= 0 && content.len) {
		ssize_t n = write(fd, content.p, content.len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		content.p += n;
		content.len -= (size_t)n;
	}
	return fd < 0 || content.len ? err_sys(e, errno, "cloud-init disk: %s", path) : 0;
}

int seed_write(const char *path, const char *instance_id, const struct vm_spec *vm, struct err *e)
{
	const struct cloud_init_spec *ci = vm->cloud_init;
	struct iso_disc d = {.volume = "CIDATA",
		.files = {{.name = "meta-data"}, {.name = "user-data"}, {.name = "network-config"}},
		.n_files = ci->network_config ? 3 : 2};
	const char *texts[] = {ci->meta_data, ci->user_data, ci->network_config};
	auto_free char *meta = NULL;
	auto_buf struct buf image = {0};

	/* cloud-init wants an instance id. What the user gives is taken as it is. */
	if (!ci->meta_data && str_printf(&meta, e, "instance-id: %s-%s\nlocal-hostname: %s\n",
				      instance_id, vm->name, vm->name) < 0)
		return -1;
	if (!ci->meta_data)
		texts[0] = meta;
	if (!ci->user_data)
		texts[1] = "#cloud-config\n";
	for (size_t i = 0; i < d.n_files; i++)
		d.files[i].size = strlen(texts[i]);
	if (make_image(&d, texts, &image, e) < 0)
		return -1;
	return write_file(path, buf_bytes(&image), e);
}
