#include "driver/proxmox/vm/seed.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver/proxmox/api/upload.h"
#include "driver/proxmox/site/entry.h"
#include "driver/seed.h"
#include "util/auto.h"
#include "util/str.h"

int pve_seed_upload(struct pve_sandbox *b, const struct op *op, const struct vm_spec *spec,
	const char *storage, const char *label, char **ret_volid, int64_t *ret_row, struct err *e)
{
	auto_free char *path = NULL, *name = NULL, *volid = NULL;
	struct pve_upload up = {.node = b->inst->node, .storage = storage, .content = "iso"};
	auto_fd int fd = -1;
	struct stat st;
	int64_t row;
	int rc;

	if (str_printf(&path, e, "%s/%s-%s.iso", b->d->env->paths->state, b->id, label) < 0 ||
		str_printf(&name, e, "%s-%s.iso", b->stamp, label) < 0 ||
		str_printf(&volid, e, "%s:iso/%s", storage, name) < 0)
		return -1;
	rc = seed_write(path, b->id, spec, e);
	fd = rc == 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	unlink(path);
	if (rc < 0)
		return -1;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, errno, "%s", path);
	up.name = name;
	up.fd = fd;
	up.size = (uint64_t)st.st_size;
	if (pve_entry_intent(b, "volume", volid, &row, e) < 0 ||
		pve_upload(b->api, op, &up, e) < 0 || journal_done(b->d->env->journal, row, e) < 0)
		return -1;
	*ret_volid = take_ptr(&volid);
	*ret_row = row;
	return 0;
}
