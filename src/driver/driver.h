/*
 * driver.h - what a backend must do. A driver makes boxes: a box is one sandbox as its driver sees
 * it, VMs and networks together.
 *
 * Every operation blocks, gives up when its op ends, and runs on any thread. create and destroy of
 * one box never overlap with anything else on it; the daemon sees to that. Before it makes
 * anything, a driver journals it; on failure of create it has removed what it made, or left it in
 * the journal for reclaim.
 */
#pragma once

#include <stdbool.h>

#include "guest/guest.h"
#include "journal/journal.h"
#include "spec/spec.h"
#include "store/store.h"
#include "store/templates.h"
#include "util/op.h"
#include "util/paths.h"

/* What drivers share; fixed before the first thread and outliving them all. */
struct driver_env {
	const struct paths *paths;
	struct store *store;
	struct templates *templates;
	struct journal *journal;
	const char *helper_path; /* moat-helper: for guards */
	const char *runner_path; /* moat-guest, or NULL if it is not installed */
	const char *ssh_path;    /* moat-ssh, likewise */
	const char *accel;       /* "auto", "kvm", "tcg" */
	const char *qemu;        /* the emulator's name or path */
	double boot_timeout;     /* seconds until a guest must have answered */
	const char
		*image_mirror; /* takes the place of "https://host" in addresses of images; or "" */
};

enum box_vm_state { BOX_VM_STARTING, BOX_VM_RUNNING, BOX_VM_DEAD };

struct box_vm_info { /* pointers live as long as the box */
	enum box_vm_state state;
	const char *image, *user, *accelerator;
	const char *way; /* into the guest: "runner", "agent", "" while there is none */
	int pid;         /* 0: none on this machine */
	/* On this host: a directory that the backend's own tools know, and what they call the VM
	 * there; NULL: none. */
	const char *place, *known_as;
	const char *ssh_host; /* what ssh calls it, with a configuration file near it; NULL: none */
	unsigned vmid;        /* 0: not on a server */
	const char *server, *console; /* NULL: not on a server. console: a URL */
	const char *start;            /* "warm", "cold"; NULL: the driver knows no difference */
	const char *cold_reason; /* why it could not start from a template; NULL: none to tell */
	char error[512];         /* why it is dead; "" otherwise */
};

struct check { /* one line of `moat doctor` */
	const char *name;
	enum { CHECK_OK, CHECK_WARN, CHECK_MISSING } state;
	char detail[256], fix[256]; /* fix: a command, or "" */
};

/* What is asked for. Outlives the box, but for access, which is there during create only. */
struct box_request {
	const char *id; /* of the sandbox */
	const struct sandbox_spec *spec;
	const json_t *labels; /* object of strings */
	/* How to reach the backend, secrets included; NULL: as it is configured. Never journaled,
	 * never shown. */
	const json_t *access;
};

enum box_log { BOX_LOG_CONSOLE, BOX_LOG_BACKEND };

struct driver; /* an open driver; each has a struct that begins with one of these */
struct box;

struct driver_ops {
	const char *name;
	bool on_this_host; /* its VMs take this host's memory: they pass admission */
	bool remote; /* its things are on servers: it reclaims them itself, in the background */
	double removal_seconds; /* how long destroy may take at most */
	/* Cheap and without a network: a driver that nobody uses must not keep us from starting. */
	int (*open)(const struct driver_env *env, struct driver **ret, struct err *e);
	void (*close)(struct driver *d);
	/* Calls say() for each check; fails only if it cannot check at all. */
	int (*doctor)(struct driver *d, const struct op *op, const json_t *access,
		void (*say)(void *arg, const struct check *c), void *arg, struct err *e);
	/* Refuses, naming the place, what this driver cannot do. Makes nothing. */
	int (*validate)(struct driver *d, const struct sandbox_spec *spec, struct err *e);
	/* Returns when every VM with is_sandbox answers. */
	int (*create)(struct driver *d, const struct op *op, const struct box_request *req,
		struct box **ret, struct err *e);
	/*
	 * For a driver whose spec does not say what VMs there are: the spec as it turned out, the
	 * caller's. Called once, after create; all VM numbers are those of this one. NULL: as
	 * asked.
	 */
	int (*final_spec)(struct box *b, struct sandbox_spec **ret, struct err *e);
	/* Removes everything; frees the box even when something would not go (then the journal
	 * still has it). */
	int (*destroy)(struct driver *d, const struct op *op, struct box *b, struct err *e);
	/* Removes a thing that an earlier daemon left. Fine if it is gone already or was never
	 * made. access: as in box_request, of whoever wants it removed. */
	int (*reclaim)(struct driver *d, const struct op *op, const struct journal_thing *t,
		const json_t *access, struct err *e);
	/* Things of ours that the journal does not know of; says what it removed. */
	int (*sweep)(struct driver *d, const struct op *op,
		bool (*known)(void *arg, const char *id), void (*said)(void *arg, const char *what),
		void *arg, struct err *e);
	/* The way into a VM, opened or re-made if need be. Given back with guest_give. */
	int (*guest_take)(
		struct box *b, const struct op *op, unsigned vm, struct guest **ret, struct err *e);
	void (*guest_give)(struct box *b, unsigned vm, struct guest *g);
	/* An operation in the guest failed: if that is because the VM has ended, e becomes the
	 * reason of that. */
	void (*explain)(struct box *b, unsigned vm, struct err *e);
	void (*describe)(struct box *b, unsigned vm, struct box_vm_info *ret);
	/* A PNG of the screen. */
	int (*screenshot)(
		struct box *b, const struct op *op, unsigned vm, struct buf *ret, struct err *e);
	/* A file that grows while the VM runs and may be replaced by an empty one when it gets
	 * large. */
	int (*log_path)(struct box *b, unsigned vm, enum box_log which, char **ret, struct err *e);
	/* NULL: this driver does not look into its networks. What net_show tells is in
	 * docs/protocol.md; who has it has net_forward and net_unforward, too. net_capture gives
	 * pcap to output until the op ends. */
	int (*net_show)(struct box *b, const struct op *op, json_t **ret, struct err *e);
	int (*net_forward)(struct box *b, const struct op *op, unsigned vm, unsigned port,
		unsigned host_port, json_t **ret, struct err *e);
	int (*net_unforward)(struct box *b, const struct op *op, unsigned host_port, struct err *e);
	int (*net_capture)(struct box *b, const struct op *op, const char *vnet,
		int (*output)(void *arg, struct bytes data, struct err *e), void *arg,
		struct err *e);
	/*
	 * All NULL: this driver has no snapshots. Names are checked by the driver; one that is
	 * there already is replaced. restore overlaps with nothing else on the box. If it fails,
	 * the VMs may be dead.
	 */
	int (*snapshot)(struct box *b, const struct op *op, const char *name, struct err *e);
	int (*restore)(struct box *b, const struct op *op, const char *name, struct err *e);
	/* The same for one VM of several. NULL: it is all of them or none. */
	int (*snapshot_vm)(
		struct box *b, const struct op *op, unsigned vm, const char *name, struct err *e);
	int (*restore_vm)(
		struct box *b, const struct op *op, unsigned vm, const char *name, struct err *e);
	/* Array of {"name", "created_us", "size"}. */
	int (*snapshots)(struct box *b, const struct op *op, json_t **ret, struct err *e);
	int (*snapshot_rm)(struct box *b, const struct op *op, const char *name, struct err *e);
	/* Like create, from a snapshot of another box with the same spec. NULL: it cannot. */
	int (*create_from)(struct box *b, const struct op *op, const char *name,
		const struct box_request *req, struct box **ret, struct err *e);
	/*
	 * It has waited for somebody to use it: fails unless all VMs are alive and answer, and
	 * sets what waiting has made stale. NULL: sandboxes of this driver cannot be kept ready.
	 */
	int (*refresh)(struct box *b, const struct op *op, struct err *e);
	/* NULL: this driver has no pools of servers. args, *ret: docs/protocol.md, "pool" and
	 * "pool.images". */
	int (*pool)(struct driver *d, const struct op *op, const json_t *args, json_t **ret,
		struct err *e);
	int (*images)(struct driver *d, const struct op *op, const json_t *args, json_t **ret,
		struct err *e);
};

struct driver {
	const struct driver_ops *ops;
	unsigned vm_overhead_mb; /* on_this_host: what a VM may take besides the guest's memory */
};

struct box {
	struct driver *driver;
};

extern const struct driver_ops driver_qemu, driver_proxmox, driver_vagrant;
/* NULL: this build has no such driver. */
const struct driver_ops *driver_find(const char *name);
