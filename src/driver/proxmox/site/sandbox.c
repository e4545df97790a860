#include "driver/proxmox/site/sandbox.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "util/thread/lock.h"

void pve_sandbox_free(struct pve_sandbox *b)
{
	for (size_t i = 0; i < b->n_vms; i++) {
		struct pve_vm *vm = &b->vms[i];

		guest_free(vm->guest);
		json_decref(vm->template_config);
		free(vm->seed_volid);
		free(vm->console_url);
		if (vm->ready_fd >= 0)
			close(vm->ready_fd);
		turn_done(&vm->opening);
		lock_done(&vm->mu);
	}
	free(b->vms);
	free(b->vnets);
	free(b->iso_storage);
	free(b->dns);
	free(b);
}

int pve_sandbox_new(struct pve_driver *d, const struct sandbox_request *req,
	struct pve_sandbox **ret, struct err *e)
{
	struct pve_sandbox *b = calloc(1, sizeof(*b));

	if (!b)
		return err_oom(e);
	b->base.driver = &d->base;
	b->d = d;
	b->spec = req->spec;
	snprintf(b->id, sizeof(b->id), "%s", req->id);
	snprintf(b->range_key, sizeof(b->range_key), "%s", req->id);
	snprintf(b->stamp, sizeof(b->stamp), "moat-%s-%s", d->install, req->id);
	b->vms = calloc(req->spec->n_vms, sizeof(*b->vms));
	if (!b->vms) {
		pve_sandbox_free(b);
		return err_oom(e);
	}
	for (size_t i = 0; i < req->spec->n_vms; i++) {
		struct pve_vm *vm = &b->vms[i];

		vm->sandbox = b;
		vm->spec = &req->spec->vms[i];
		b->ram_mb += vm->spec->ram_mb;
		lock_init(&vm->mu, "pve_vm.mu", LOCK_LEAF);
		b->n_vms = i + 1;
		vm->ready_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		turn_init(&vm->opening);
		if (vm->ready_fd < 0) {
			err_sys(e, errno, "VM %s", vm->spec->name);
			pve_sandbox_free(b);
			return -1;
		}
	}
	*ret = b;
	return 0;
}

void pve_sandbox_enter(struct pve_sandbox *b)
{
	auto_unlock struct lock *held = lock_take(&b->d->mu);

	b->next = b->d->sandboxes;
	b->d->sandboxes = b;
	json_object_set_new(b->d->living, b->id, json_true());
}

void pve_sandbox_leave(struct pve_sandbox *b)
{
	auto_unlock struct lock *held = lock_take(&b->d->mu);

	json_object_del(b->d->living, b->id);
	for (struct pve_sandbox **at = &b->d->sandboxes; *at; at = &(*at)->next)
		if (*at == b) {
			*at = b->next;
			return;
		}
}

bool pve_sandbox_lives(struct pve_driver *d, const char *id)
{
	auto_unlock struct lock *held = lock_take(&d->mu);

	return json_object_get(d->living, id) != NULL;
}
