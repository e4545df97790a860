#include "driver/proxmox/site/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "driver/proxmox/site/site.h"
#include "util/auto.h"
#include "util/str.h"
#include "util/system/io.h"

/* Reads the name that tells what is ours from what others made on a server; chosen once for a state
 * directory. */
static int load_install(struct pve_driver *d, struct err *e)
{
	auto_free char *path = NULL, *text = NULL;

	if (str_printf(&path, e, "%s/proxmox-id", d->env->paths->state) < 0)
		return -1;
	if (path_exists(path)) {
		if (file_read(path, 64, &text, NULL, e) < 0)
			return -1;
		if (strspn(text, "0123456789abcdef") >= 8) {
			memcpy(d->install, text, 8);
			return 0;
		}
	}
	if (str_random_hex(4, d->install, e) < 0)
		return -1;
	return file_write_atomic(path, d->install, 8, 0600, e);
}

static void free_lists(struct pve_driver *d)
{
	while (d->sites) {
		struct pve_site *s = d->sites;

		d->sites = s->next;
		pve_site_free(s);
	}
	while (d->insts) {
		struct pve_inst *i = d->insts;

		d->insts = i->next;
		pve_inst_free(i);
	}
	while (d->pools) {
		struct pve_pool *p = d->pools;

		d->pools = p->next;
		free(p->id);
		free(p);
	}
}

void pve_driver_free(struct pve_driver *d)
{
	if (!d)
		return;
	free_lists(d);
	if (d->cleaner_fd >= 0)
		close(d->cleaner_fd);
	op_done(&d->cleaner_op);
	turn_done(&d->saving);
	lock_done(&d->mu);
	json_decref(d->living);
	json_decref(d->saved);
	free(d->access_path);
	free(d);
}

int pve_driver_new(const struct driver_env *env, struct pve_driver **ret, struct err *e)
{
	struct pve_driver *d = calloc(1, sizeof(*d));

	if (!d)
		return err_oom(e);
	d->env = env;
	d->cleaner_op.cancel_fd = -1;
	lock_init(&d->mu, "pve_driver.mu", LOCK_OUTER);
	turn_init(&d->saving);
	d->living = json_object();
	d->cleaner_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (d->cleaner_fd < 0) {
		err_sys(e, errno, "eventfd");
		goto fail;
	}
	if (op_init(&d->cleaner_op, "cleaner", 0, e) < 0 || load_install(d, e) < 0 ||
		str_printf(&d->access_path, e, "%s/proxmox-logins.json", env->paths->state) < 0)
		goto fail;
	*ret = d;
	return 0;
fail:
	pve_driver_free(d);
	return -1;
}
