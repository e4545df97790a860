/*
 * driver.h - what a backend must do. A driver makes whole sandboxes, VMs and networks together; a
 * driver_sandbox is one of them.
 *
 * Every operation blocks, gives up when its op ends, and runs on any thread. create and destroy of
 * one sandbox never overlap with anything else on it; the daemon sees to that. A driver journals
 * what it is about to make. If create fails, the driver has removed what it made, or has left it in
 * the journal for reclaim.
 */
#pragma once

#include <stdbool.h>

#include "driver/container.h"
#include "guestlink/guest.h"
#include "guestlink/runners.h"
#include "journal/journal.h"
#include "screen/picture.h"
#include "screen/steps.h"
#include "spec/spec.h"
#include "store/store.h"
#include "store/template/templates.h"
#include "util/thread/bell.h"
#include "util/thread/op.h"
#include "util/system/paths.h"

/* What drivers share; fixed before the first thread starts, and outliving all drivers. */
struct driver_env {
	const struct paths *paths;
	struct store *store;
	struct templates *templates;
	struct journal *journal;
	const char *helper_path; /* moat-helper: for guards */
	const char *ssh_path;    /* moat-ssh, or NULL if it is not installed */
	const char *accel;       /* "auto", "kvm", "tcg" */
	const char *qemu;        /* the emulator's name or path */
	double boot_timeout;     /* seconds until a guest must have answered */
	double outage_timeout;   /* seconds that a server may be away */
	struct runners runners;
	/* Takes the place of "https://host" in addresses of images; "": nothing does. */
	const char *image_mirror;
	uint64_t download_max; /* bytes that a download may have; 0: any */
	struct bell *changes;  /* rung when a VM's state has changed; NULL: nobody listens */
};

enum vm_state { VM_STARTING, VM_RUNNING, VM_DEAD };

struct vm_info { /* pointers live as long as the sandbox */
	enum vm_state state;
	const char *image, *user, *accelerator;
	const char *link; /* to the guest: "runner", "agent", "" while there is none */
	int pid;          /* of its process; 0: it has none on this machine */
	/* A directory on this host that the backend's own tools know, and what they call the VM
	 * there; NULL: there is none. */
	const char *backend_dir, *backend_name;
	const char
		*ssh_host; /* what the user's ssh calls it; NULL: ssh has no configuration for it */
	unsigned vmid;     /* 0: not on a server */
	const char *server, *console; /* NULL: not on a server. console: a URL */
	const char *zone;  /* of the server's networks, the sandbox's own; NULL: it has none */
	const char *start; /* "warm", "cold"; NULL: the driver knows no difference */
	const char *cold_reason; /* why it could not start from a template; NULL: none to tell */
	const struct container *container; /* how commands run by default; NULL: as by themselves */
	const char *lack; /* what this host could not give it, and why; NULL: it has all */
	char error[512];  /* why it is dead; "" otherwise */
};

/* What a VM uses; -1: not known. Sums since its start, but for the memory. */
struct vm_figures {
	int64_t cpu_us;         /* processor time */
	int64_t memory;         /* bytes of this host's memory that it has touched */
	int64_t sent, received; /* bytes, by all of its NICs */
};

struct check { /* one line of `moat doctor` */
	const char *name;
	enum { CHECK_OK, CHECK_WARN, CHECK_MISSING } state;
	char detail[1024], fix[512]; /* fix: a command, or "" */
};

/* What a client asks for. It outlives the sandbox, but for access, which is there during create
 * only. */
struct sandbox_request {
	const char *id; /* of the sandbox */
	const struct sandbox_spec *spec;
	const json_t *labels; /* object of strings */
	/* How to reach the backend, secrets included; NULL: as the daemon is configured. Never
	 * journaled, never shown. */
	const json_t *access;
};

struct driver_commit {
	const char *name; /* of the image */
	const char *user; /* its default user; NULL: as that of the VM's image */
};

/* In what state a VM was when its disk was copied. */
enum commit_state {
	COMMIT_OFF,    /* it had ended */
	COMMIT_FROZEN, /* it ran, with its file systems flushed and frozen */
	COMMIT_PAUSED, /* it stood still: the disk is as after a power cut */
};

enum vm_log { VM_LOG_CONSOLE, VM_LOG_BACKEND };

struct driver; /* an open driver; the struct of each begins with one of these */
struct driver_sandbox;

struct driver_ops {
	const char *name;
	bool on_this_host; /* its VMs take this host's memory: they pass admission */
	bool remote; /* what it makes is on servers: it reclaims that itself, in the background */
	double removal_seconds; /* how long destroy may take at most */
	/* Cheap and without a network: a driver that nobody uses must not keep us from starting. */
	int (*open)(const struct driver_env *env, struct driver **ret, struct err *e);
	void (*close)(struct driver *d);
	/* The daemon is about to end: from now on what does not answer is given up within seconds,
	 * and left to the journal. NULL: everything is on this machine. */
	void (*hurry)(struct driver *d);
	/* Calls say() for each check; fails only if it cannot check at all. */
	int (*doctor)(struct driver *d, const struct op *op, const json_t *access,
		void (*say)(void *arg, const struct check *c), void *arg, struct err *e);
	/* Refuses, naming the place, what this driver cannot do. Makes nothing. */
	int (*validate)(struct driver *d, const struct sandbox_spec *spec, struct err *e);
	/* Returns when every VM with is_sandbox answers. */
	int (*create)(struct driver *d, const struct op *op, const struct sandbox_request *req,
		struct driver_sandbox **ret, struct err *e);
	/*
	 * For a driver whose spec does not say what VMs there are: the spec with the VMs that were
	 * made. It becomes the caller's, and a VM's number is its index in it. Called once, after
	 * create. NULL: the spec stays as it was asked for.
	 */
	int (*final_spec)(struct driver_sandbox *b, struct sandbox_spec **ret, struct err *e);
	/* Removes the sandbox, and frees the struct even if a part of it could not be removed: the
	 * journal still has that. */
	int (*destroy)(
		struct driver *d, const struct op *op, struct driver_sandbox *b, struct err *e);
	/* Removes what an entry of the journal names and an earlier daemon left. Fine if it is gone
	 * already or was never made. access: as in sandbox_request, of the client that wants it
	 * removed. */
	int (*reclaim)(struct driver *d, const struct op *op, const struct journal_entry *t,
		const json_t *access, struct err *e);
	/* Removes what is ours and has no entry in the journal; says what it removed. */
	int (*sweep)(struct driver *d, const struct op *op,
		bool (*known)(void *arg, const char *id), void (*said)(void *arg, const char *what),
		void *arg, struct err *e);
	/* The link into a VM, opened anew if need be. Given back with guest_give. */
	int (*guest_take)(struct driver_sandbox *b, const struct op *op, unsigned vm,
		struct guest **ret, struct err *e);
	void (*guest_give)(struct driver_sandbox *b, unsigned vm, struct guest *g);
	/* An operation in the guest failed: if that is because the VM has ended, e becomes the
	 * reason of that. */
	void (*explain)(struct driver_sandbox *b, unsigned vm, struct err *e);
	void (*describe)(struct driver_sandbox *b, unsigned vm, struct vm_info *ret);
	/* NULL: this driver knows no figures. By one thread at a time. */
	void (*figures)(
		struct driver_sandbox *b, const struct op *op, unsigned vm, struct vm_figures *ret);
	/*
	 * All NULL: this driver shows no screens. By one thread at a time for a VM, but for
	 * screen_open, which gives a socket with a VNC server at its other end, whom nobody need
	 * tell a password.
	 */
	int (*screenshot)(struct driver_sandbox *b, const struct op *op, unsigned vm,
		struct picture *ret, struct err *e);
	int (*input)(struct driver_sandbox *b, const struct op *op, unsigned vm,
		const struct step *steps, size_t n, struct err *e);
	int (*screen_open)(struct driver_sandbox *b, const struct op *op, unsigned vm, int *ret_fd,
		struct err *e);
	/* A file that grows while the VM runs and may be replaced by an empty one when it gets
	 * large. */
	int (*log_path)(struct driver_sandbox *b, unsigned vm, enum vm_log which, char **ret,
		struct err *e);
	/* What the service of a VM made of a container image has written, to its end, or until the
	 * op ends. NULL: this driver makes no such VMs. */
	int (*service_log)(struct driver_sandbox *b, const struct op *op, unsigned vm, bool follow,
		const struct guest_io *io, struct err *e);
	/* NULL: this driver does not look into its networks. What net_show tells is in
	 * docs/protocol.md. net_forward and net_unforward: both or neither. net_capture gives pcap
	 * to output until the op ends. */
	int (*net_show)(struct driver_sandbox *b, const struct op *op, json_t **ret, struct err *e);
	int (*net_forward)(struct driver_sandbox *b, const struct op *op, unsigned vm,
		unsigned port, unsigned host_port, json_t **ret, struct err *e);
	int (*net_unforward)(
		struct driver_sandbox *b, const struct op *op, unsigned host_port, struct err *e);
	int (*net_capture)(struct driver_sandbox *b, const struct op *op, const char *vnet,
		int (*output)(void *arg, struct bytes data, struct err *e), void *arg,
		struct err *e);
	/*
	 * All NULL: this driver has no snapshots. Names are checked by the driver. A snapshot of
	 * the same name is replaced. restore overlaps with nothing else on the sandbox; if it
	 * fails, the VMs may be dead.
	 */
	int (*snapshot)(
		struct driver_sandbox *b, const struct op *op, const char *name, struct err *e);
	int (*restore)(
		struct driver_sandbox *b, const struct op *op, const char *name, struct err *e);
	/* A snapshot of one VM of several. NULL: a snapshot is of all VMs. */
	int (*snapshot_vm)(struct driver_sandbox *b, const struct op *op, unsigned vm,
		const char *name, struct err *e);
	int (*restore_vm)(struct driver_sandbox *b, const struct op *op, unsigned vm,
		const char *name, struct err *e);
	/* Array of {"name", "created_us", "size"}; size may be null, and "vms" may say which VMs
	 * have it. */
	int (*snapshots)(
		struct driver_sandbox *b, const struct op *op, json_t **ret, struct err *e);
	int (*snapshot_rm)(
		struct driver_sandbox *b, const struct op *op, const char *name, struct err *e);
	/* Makes a sandbox from a snapshot of another one with the same spec. NULL: this driver
	 * cannot. */
	int (*create_from)(struct driver_sandbox *b, const struct op *op, const char *name,
		const struct sandbox_request *req, struct driver_sandbox **ret, struct err *e);
	/* Makes an image of a VM's disk; a running VM goes on. NULL: this driver cannot. */
	int (*commit)(struct driver_sandbox *b, const struct op *op, unsigned vm,
		const struct driver_commit *req, struct image **ret, enum commit_state *ret_state,
		struct err *e);
	/*
	 * Before a client gets a standby sandbox: fails unless all VMs are alive and answer, and
	 * sets what waiting has made stale, such as clocks. NULL: sandboxes of this driver cannot
	 * be kept in standby.
	 */
	int (*refresh)(struct driver_sandbox *b, const struct op *op, struct err *e);
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

struct driver_sandbox {
	struct driver *driver;
};

extern const struct driver_ops driver_qemu, driver_proxmox, driver_vagrant;
/* NULL: this build has no such driver. */
const struct driver_ops *driver_find(const char *name);
