/*
 * pve.h - the parts of the Proxmox VE driver, for its own files only.
 *
 * How it works. A *site* is an API end point with a login (a server, or a cluster); an *instance*
 * is a node of a site with its storages and its pool, as users configure it. A sandbox waits in
 * its pool's queue for a place on an instance (pve-pool.c), gets its networks (pve-net.c), finds
 * or makes the templates of its VMs (pve-source.c), clones, configures and starts them (pve-vm.c).
 * All it makes is journaled before and stamped on the server (pve-things.c), so that it can be
 * removed by a daemon that knows no more than the journal and how to log in (pve-access.c).
 *
 * Locks: pve_driver.mu guards sites, instances, pools and boxes; pve_site.mu what one site shares.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "driver/driver.h"
#include "driver/pve-args.h"
#include "guest/pve-guest.h"
#include "pve/api.h"
#include "util/turn.h"

#define PVE_NAME "proxmox"

struct pve_range { /* what one of our sandboxes has on a site, and no other can have there */
	struct pve_range *next;
	struct ipv4_net net; /* a network; or, if it is set, */
	struct mac_addr mac; /* a card: the server keeps one IP address for it, in whatever zone */
	char owner[40];
};

struct pve_site {
	struct pve_site *next;
	char *key;      /* "user@realm@host:port": how the journal names it */
	char *base_url; /* "https://host:port" */
	struct pve_api *api;
	struct pve_api *old_apis[8]; /* with earlier passwords; boxes may still use them */
	unsigned n_old;
	json_t *access;       /* the client's words, with secrets: for pve-access.c only */
	struct turn applying; /* of SDN changes */
	struct turn building; /* of templates: one at a time */

	pthread_mutex_t mu;
	uint64_t sdn_wanted, sdn_applied;
	struct pve_range *ranges;
	unsigned ids[64]; /* vmids that are being used for a new VM; 0: free slot */
	json_t *cache;    /* path to what GET answered: {"at": ns, "data": ...} */
};

enum pve_inst_state { PVE_INST_OK, PVE_INST_FAILED, PVE_INST_DIRTY };

struct pve_inst {
	struct pve_inst *next;
	char *id, *pool, *node;
	char *image_storage, *iso_storage, *import_storage; /* the last two may be NULL: chosen */
	unsigned max_sandboxes;                             /* 0: as memory allows */
	struct pve_site *site;

	/* Guarded by pve_driver.mu. */
	enum pve_inst_state state;
	bool disabled;
	int64_t look_again_ns; /* PVE_INST_FAILED: not before */
	char why[256];
	unsigned boxes;
	uint64_t promised_mb; /* of VMs that do not run yet */
};

struct pve_waiter;
struct pve_pool {
	struct pve_pool *next;
	char *id;
	struct pve_waiter *first;
	unsigned waiting;
};

struct pve_driver {
	struct driver base;
	const struct driver_env *env;
	char install[9];    /* who "we" are on a server: stays with the state directory */
	char *access_path;  /* logins of sites that hold things of ours */
	struct turn saving; /* of that file */

	pthread_mutex_t mu;
	struct pve_site *sites;
	struct pve_inst *insts;
	struct pve_pool *pools;
	struct pve_box *boxes;

	/* The cleaner: removes what could not be removed at once. */
	pthread_t cleaner;
	bool cleaner_runs;
	int cleaner_fd; /* eventfd: look now */
	struct op cleaner_op;
};

struct pve_vm {
	struct pve_box *box;
	const struct vm_spec *spec;
	unsigned vmid; /* 0: not made */
	int64_t row;   /* its journal row */
	bool windows;
	unsigned template_id;
	json_t *template_config;
	char *seed_volid;
	int64_t seed_row;
	char *console_url;

	struct turn opening; /* one thread opens the way in */
	int ready_fd;        /* eventfd, readable once others may rely on it */
	pthread_mutex_t mu;
	enum box_vm_state state;
	struct err death;
	struct guest *guest; /* lives as long as the box */
	struct pve_guest_vm way;
};

struct pve_box {
	struct box base;
	struct pve_box *next;
	struct pve_driver *d;
	char id[32];
	char range_key[40]; /* whose ranges its networks are */
	char stamp[48];     /* "moat-INSTALL-ID": tag, part of descriptions and file names */
	const struct sandbox_spec *spec;
	struct pve_inst *inst;
	struct pve_site *site;
	struct pve_api *api;
	char *iso_storage; /* as found on the node; NULL: none */
	char *dns;         /* the node's own server, for networks with a way out; NULL: none */
	uint64_t ram_mb;
	bool promised;
	bool walled; /* the server's firewall is on: it keeps our networks apart */

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

/* pve-access.c */
/* Enters the instances of a client into the driver's; *ret: an array of struct pve_inst *, NULL at
 * the end, which the caller frees. access NULL: those that are known. */
int pve_access_read(
	struct pve_driver *d, const json_t *access, struct pve_inst ***ret, struct err *e);
/* The site that the journal names; loads the saved logins if need be. */
int pve_access_site(struct pve_driver *d, const char *key, struct pve_site **ret, struct err *e);
/* Saves the logins of sites of which the journal or a box has things, and forgets all others. */
int pve_access_save(struct pve_driver *d, struct err *e);
/* How to reach it now; stays valid for as long as the driver is open. */
struct pve_api *pve_site_api(struct pve_site *s);
void pve_access_free(struct pve_driver *d);

/* pve-pool.c */
/* Waits for a place for the box. *ret_vms: the VMs on the node, as the server lists them. */
int pve_place(struct pve_box *b, const struct op *op, struct pve_inst *const *insts,
	json_t **ret_vms, struct err *e);
void pve_place_started(struct pve_box *b); /* its memory shows in the node's figures now */
void pve_place_leave(struct pve_box *b);
void pve_inst_failed(struct pve_driver *d, struct pve_inst *inst, const struct err *why);
void pve_inst_dirty(struct pve_driver *d, struct pve_inst *inst, const struct err *why);
int pve_pool_op(
	struct driver *base, const struct op *op, const json_t *args, json_t **ret, struct err *e);

/* pve-node.c: what a node has; asked once a box. */
struct pve_storages {
	char *iso, *import;  /* that take such content; NULL: none */
	char *work;          /* where the server unpacks OVAs; NULL: nowhere */
	const char *format;  /* for disks on the image storage: "qcow2", or NULL for its default */
	bool images;         /* the image storage takes disks */
	char image_type[32]; /* "lvmthin", "dir", ... */
	/* What to run on the node to get what is missing. */
	char fix_iso[160], fix_import[160], fix_work[160];
};
int pve_storages_find(
	struct pve_inst *inst, const struct op *op, struct pve_storages *ret, struct err *e);
/* Servers from this version on take disk images to import; OVAs came one earlier. */
#define PVE_DISKS_SINCE 8, 4
/* Whether the server's version is lower than that; text is for messages. One that cannot be read is
 * not. */
int pve_older_than(struct pve_site *site, const struct op *op, int major, int minor, bool *ret,
	char ret_text[32], struct err *e);
/* GET, or what it answered less than two minutes ago. */
int pve_fetch(
	struct pve_site *site, const struct op *op, const char *path, json_t **ret, struct err *e);
void pve_storages_free(struct pve_storages *s);
#define auto_pve_storages __attribute__((cleanup(pve_storages_free)))

/* pve-net.c */
int pve_net_make(struct pve_box *b, const struct op *op, struct err *e);
/* The bridge that a NIC is connected to. */
int pve_net_bridge(struct pve_box *b, const struct op *op, const struct nic_spec *nic, char **ret,
	struct err *e);
/* Gives a NIC the address that the spec reserves for it. */
int pve_net_reserve(struct pve_box *b, const struct op *op, const struct pve_vm *vm,
	const struct nic_spec *nic, struct err *e);
/* Removes a zone with all in it if it is the stamped sandbox's; fine if there is none. */
int pve_net_remove(struct pve_site *site, const struct op *op, const char *zone, const char *stamp,
	struct err *e);
void pve_net_forget(struct pve_box *b);
/* Takes the networks and the cards that the spec insists on; ERR_BUSY: another sandbox of ours has
 * one. pve_net_forget gives them back. */
int pve_net_claim(struct pve_box *b, struct pve_site *site, struct err *e);
/* Whether another sandbox of ours on the site has a network or a card that the spec insists on. */
bool pve_net_clashes(const struct pve_box *b, struct pve_site *site);
/* pve-sdn.c */
/* Applies what is pending, once for all who ask at the same time. */
int pve_sdn_apply(struct pve_site *site, const struct op *op, struct err *e);
/* The same, until the node has the box's zone. */
int pve_sdn_make(struct pve_box *b, const struct op *op, struct err *e);

/* pve-wall.c */
/* Whether the server has a firewall that is on. */
int pve_wall_find(struct pve_box *b, const struct op *op, struct err *e);
/* Lets a VM reach its sandbox's networks, and what snat leads to, but neither the node nor anything
 * else with a private address. */
int pve_wall_make(struct pve_vm *vm, const struct op *op, struct err *e);

/* pve-source.c */
/* Finds the template of a VM, or makes it; fills template_id and template_config. */
int pve_source_find(struct pve_vm *vm, const struct op *op, const json_t *vms, struct err *e);
/* pve-import.c: a template from a disk or an OVA that is on this machine or on the net. */
struct pve_import {
	const char *tag;       /* what it will be found by */
	const char *name;      /* of the VM that becomes the template */
	const char *path;      /* a local file: qcow2, raw, vmdk or OVA; or */
	const char *url;       /* something that the server downloads itself, or */
	const char *packed;    /* an archive with a disk, which we download and unpack for it */
	const char *filename;  /* on the server's storage */
	const char *sha256;    /* of the local file */
	const char *user_data; /* boot it once with this cloud-init, and an open network; or NULL */
	enum spec_disk disk;
	bool uefi;
	const char *os_type;
};
/* Removes what an earlier daemon had downloaded. */
void pve_import_sweep(const struct driver_env *env);
int pve_import(struct pve_vm *vm, const struct op *op, const struct pve_import *im,
	unsigned *ret_template, struct err *e);

/* pve-vm.c */
int pve_vm_clone(struct pve_vm *vm, const struct op *op, struct err *e);
int pve_vm_configure(struct pve_vm *vm, const struct op *op, struct err *e);
int pve_vm_start(struct pve_vm *vm, const struct op *op, struct err *e);
int pve_vm_wait_ready(struct pve_vm *vm, const struct op *op, struct err *e);
struct guest *pve_vm_guest(struct pve_vm *vm); /* NULL: not opened yet */
int pve_vm_guest_take(struct pve_vm *vm, const struct op *op, struct guest **ret, struct err *e);
/* An operation failed: if that is because the VM has ended, e becomes the reason of that. */
void pve_vm_explain(struct pve_vm *vm, struct err *e);
/* pve-id.c: runs make() with ids until one is not taken by somebody else; journals each before. */
int pve_vm_new(struct pve_box *b, const struct op *op, const char *kind,
	int (*make)(void *arg, unsigned vmid, const struct op *op, struct err *e), void *arg,
	unsigned *ret_vmid, int64_t *ret_row, struct err *e);
/* Keeps a number from being chosen for a new VM, if nobody else has it and there is room. */
bool pve_id_keep(struct pve_site *s, unsigned id);
void pve_id_release(struct pve_site *s, unsigned id);
/* Whether something failed because somebody else held the lock of this VM's configuration. */
bool pve_was_locked(const struct err *e, unsigned vmid);
/* pve_run for a path of a VM, again and again for so long while somebody else holds that lock: only
 * who tries is told. params is used up. */
int pve_run_in_turn(struct pve_box *b, const struct op *op, unsigned vmid, double seconds,
	const char *method, json_t *params, unsigned flags, const char *path, struct err *e);

/* pve-start.c */
/* Starts a VM; fine if it runs. */
int pve_start(struct pve_box *b, const struct op *op, unsigned vmid, struct err *e);
/* The same for any path of a VM's that ends in its start. */
int pve_switch_on(struct pve_box *b, const struct op *op, unsigned vmid, const char *path,
	unsigned flags, struct err *e);

/* pve-things.c: the journal's rows, and how what they name is removed */
int pve_thing_intent(
	struct pve_box *b, const char *kind, const char *name, int64_t *ret_row, struct err *e);
bool pve_thing_is_vm(const struct journal_thing *t); /* a template, too */
int pve_reclaim(
	struct driver *base, const struct op *op, const struct journal_thing *t, struct err *e);
/* Removes a VM that carries the stamp; fine if there is none. maybe_coming: a task that makes it
 * may still be running. */
struct pve_doomed {
	const char *node, *stamp;
	unsigned vmid;
	bool maybe_coming;
	bool keep_template;
};
int pve_vm_remove(
	struct pve_site *site, const struct op *op, const struct pve_doomed *vm, struct err *e);
int pve_sweep(struct driver *base, const struct op *op, bool (*known)(void *arg, const char *id),
	void (*said)(void *arg, const char *what), void *arg, struct err *e);
/* The sandbox whose stamp a text carries and that this installation made; false: it is not ours. */
bool pve_stamp_find(const struct pve_driver *d, const char *text, char ret_id[32]);
/* Whether the sandbox has a box; if not, what carries its stamp is to be removed. */
bool pve_box_lives(struct pve_driver *d, const char *id);
/* Things of boxes that are gone: reclaims them in the background. */
int pve_cleaner_start(struct pve_driver *d, struct err *e);
void pve_cleaner_wake(struct pve_driver *d);
void pve_cleaner_stop(struct pve_driver *d);

/* pve-doctor.c, pve-snapshot.c, pve-images.c */
int pve_doctor(struct driver *base, const struct op *op, const json_t *access,
	void (*say)(void *arg, const struct check *c), void *arg, struct err *e);
int pve_images(
	struct driver *base, const struct op *op, const json_t *args, json_t **ret, struct err *e);
int pve_snapshot(struct box *box, const struct op *op, const char *name, struct err *e);
int pve_restore(struct box *box, const struct op *op, const char *name, struct err *e);
int pve_snapshot_vm(
	struct box *box, const struct op *op, unsigned vm, const char *name, struct err *e);
int pve_restore_vm(
	struct box *box, const struct op *op, unsigned vm, const char *name, struct err *e);

/* pve-together.c: does the same for several things at once, each on a thread of its own. Returns
 * when all have ended; the first failure ends the others. */
int pve_together(const struct op *op, size_t n,
	int (*one)(void *arg, size_t i, const struct op *op, struct err *e), void *arg,
	struct err *e);

/* pve.c */
void pve_box_free(struct pve_box *b);
