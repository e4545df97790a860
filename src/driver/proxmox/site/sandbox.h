/*
 * sandbox.h - one sandbox on a server, and its VMs. While it is made and removed, the threads of
 * parallel_run work on it, each on a VM of its own; afterwards any thread may use a VM, and
 * pve_vm.mu guards what changes then. pve_driver.mu guards the list of sandboxes.
 */
#pragma once

#include <stdbool.h>

#include "driver/driver.h"
#include "driver/proxmox/guest/guest.h"
#include "driver/proxmox/site/site.h"
#include "driver/proxmox/site/state.h"
#include "driver/proxmox/spec/args.h"
#include "util/thread/lock.h"
#include "util/thread/turn.h"

struct pve_vm {
	struct pve_sandbox *sandbox;
	const struct vm_spec *spec;
	unsigned vmid; /* 0: not made */
	int64_t row;   /* its journal entry */
	bool windows;
	unsigned template_id;
	json_t *template_config;
	char *seed_volid;
	int64_t seed_row;
	char *console_url;

	struct turn opening; /* one thread opens the link into the guest */
	int ready_fd;        /* eventfd, readable once others may rely on the VM */
	struct lock mu;
	enum vm_state state;
	struct err death;
	struct guest *guest; /* lives as long as the sandbox */
	struct pve_guest_vm guest_vm;
};

struct pve_sandbox {
	struct driver_sandbox base;
	struct pve_sandbox *next;
	struct pve_driver *d;
	char id[32];
	char range_key[40]; /* whose ranges its networks are */
	char stamp[48];     /* "moat-INSTALL-ID": tag, part of descriptions and file names */
	const struct sandbox_spec *spec;
	struct pve_inst *inst;
	struct pve_site *site;
	struct pve_api *api;
	char *iso_storage; /* as found on the node; NULL: none */
	char *dns;         /* the node's own server, for networks with egress; NULL: none */
	uint64_t ram_mb;
	bool promised;   /* ram_mb is part of pve_inst.promised_mb */
	bool entered;    /* it is one of pve_site.sandboxes */
	bool firewalled; /* the server's firewall is on: it keeps our networks apart */

	/* networks */
	char zone[9]; /* "": none */
	int64_t zone_row;
	struct pve_vnet *vnets;
	size_t n_vnets;
	struct subnet_spec auto_subnet;
	struct dhcp_range auto_range;

	struct pve_vm *vms;
	size_t n_vms;
};

/* A sandbox that is on no instance yet; not in the driver's list. */
int pve_sandbox_new(struct pve_driver *d, const struct sandbox_request *req,
	struct pve_sandbox **ret, struct err *e);
void pve_sandbox_free(struct pve_sandbox *b);

/* Into the driver's list of sandboxes that live, and out of it. */
void pve_sandbox_enter(struct pve_sandbox *b);
void pve_sandbox_leave(struct pve_sandbox *b);
/* Whether the list has it; if not, what carries its stamp is to be removed. */
bool pve_sandbox_lives(struct pve_driver *d, const char *id);
