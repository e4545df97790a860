/*
 * vm.h - one machine that Vagrant made, and the links into its guest.
 *
 * Thread contract: init, free, made and revive by the sandbox's owner, the rest by any thread.
 */
#pragma once

#include "driver/driver.h"
#include "driver/links.h"
#include "driver/vagrant/run.h"

struct vagrant_vm {
	struct vagrant_dir *dir;
	const struct runners *runners;
	const char *ssh_path;
	char *machine; /* its name for Vagrant */
	char *name;    /* its name for users: without the suffix */
	char *alias;   /* its name for ssh */
	char provider[64];
	char user[64];     /* who runs commands; "": the user who logs in */
	bool for_commands; /* false: it only runs */
	double boot_timeout;
	struct guest_links links;

	struct lock mu; /* guards what follows */
	enum vm_state state;
	struct err death;
	bool being_made; /* `vagrant up` has not ended */
	struct vagrant_ssh ssh;
	char host_key[128]; /* as it was at the first connection; "" before */
};

int vagrant_vm_init(
	struct vagrant_vm *vm, const struct vagrant_machine *m, const char *name, struct err *e);
void vagrant_vm_free(struct vagrant_vm *vm);
/* While the machine is being made: Vagrant has said how it is reached. */
void vagrant_vm_told(struct vagrant_vm *vm, const struct vagrant_ssh *ssh);
/* `vagrant up` has ended. */
void vagrant_vm_made(struct vagrant_vm *vm);
/* A machine that was found off has been started since: it is tried again. */
void vagrant_vm_revive(struct vagrant_vm *vm);
/* Writes its configuration for ssh. A failure is logged: commands need it not. */
void vagrant_vm_keep_ssh_config(struct vagrant_vm *vm, const struct op *op);
/* For driver/links.h; their argument is the machine. A struct ssh_process is below a guest. */
extern const struct guest_links_ops vagrant_links;
/* Puts the guest's clock right: after a restore it is behind. */
int vagrant_guest_set_clock(struct vagrant_vm *vm, const struct op *op, struct err *e);
