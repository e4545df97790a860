#include "driver/proxmox/vm/seed.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "driver/proxmox/api/upload.h"
#include "driver/proxmox/site/entry.h"
#include "driver/seed.h"
#include "util/auto.h"
#include "util/str.h"

int pve_seed_upload(struct pve_sandbox *b, const struct op *op, const struct vm_spec *spec,
	const char *storage, const char *label, char **ret_volid, int64_t *ret_row, struct err *e)
{
	auto_free char *name = NULL, *volid = NULL;
	struct pve_upload up = {.node = b->inst->node, .storage = storage, .content = "iso"};
	auto_fd int fd = memfd_create("seed", MFD_CLOEXEC); /* it may have secrets in it */
	char path[40];
	struct stat st;
	int64_t row;

	if (fd < 0)
		return err_sys(e, errno, "memfd");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (str_printf(&name, e, "%s-%s.iso", b->stamp, label) < 0 ||
		str_printf(&volid, e, "%s:iso/%s", storage, name) < 0)
		return -1;
	if (seed_write(path, b->id, spec, e) < 0)
		return -1;
	if (fstat(fd, &st) < 0)
		return err_sys(e, errno, "cloud-init disk");
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
