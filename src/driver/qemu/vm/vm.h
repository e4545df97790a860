/*
 * vm.h - one local VM: its files, its QEMU, the thread that watches it, the links into its guest.
 *
 * Thread contract: alive and explain may be called by any thread between start and free, the rest
 * by the sandbox's owner, one at a time.
 */
#pragma once

#include <pthread.h>

#include "driver/caplog.h"
#include "driver/container.h"
#include "driver/driver.h"
#include "driver/qemu/vm/qmp.h"
#include "driver/links.h"
#include "guestlink/agent/qga.h"
#include "net/net.h"
#include "util/system/proc.h"
#include "util/thread/turn.h"
#include "util/thread/lock.h"

#define QEMU_ANSWER_SECONDS 60.0 /* for a command to QEMU, on a host that is slow */

struct qemu_vm {
	const struct driver_env *env;
	const char *sandbox; /* id */
	const char *dir;     /* the sandbox's */
	const struct vm_spec *spec;
	const struct sandbox_spec *sandbox_spec;
	size_t index;    /* in it */
	struct net *net; /* the sandbox's; NULL: NICs are on user-mode networks */
	struct image *image;
	struct image_use *use;
	const char *user; /* default user of commands */
	bool windows;
	bool kvm;
	uint64_t mac_base; /* random: the MACs of NICs without one */

	/* How it starts: by booting, or from a saved state. */
	struct template *template; /* whose disk, and at first whose memory, it has; NULL: none */
	int template_ram;          /* a memfd, if the VM becomes a template; -1: it becomes none */
	const char *files_sum;     /* the checksum that the spec's files must have then, or NULL */
	const char *load;          /* the state to start from; NULL: it boots */
	bool paused;               /* it waits for qemu_vm_continue */
	bool copied;               /* made from a template, whose identity its guest has at first */
	bool runner_waits;         /* a runner is in its memory already */
	struct container
		*container;    /* how its service runs; NULL: the image is no container image */
	bool serviced;         /* its service was started */
	bool identified;       /* its guest has its own identity now */
	char cold_reason[160]; /* why it did not start from a template; "": it did */

	struct proc proc;
	int qmp_fd, agent_fd, runner_fd, console_fd, stderr_fd;
	struct qmp *qmp;
	struct caplog console, backend; /* written by the monitor alone */
	pthread_t monitor;
	bool monitor_runs;
	int stop_fd;
	int dead_fd; /* eventfd: readable when state is dead */

	struct guest_links links;
	struct qga *qga;    /* belongs to the thread that opens a link */
	struct buf unsent;  /* likewise: what the runner waits for, of a frame of an old line */
	bool said_fallback; /* likewise: that the runner cannot run was logged */

	/* The monitor thread's while it runs. */
	bool guest_shut_down;      /* QEMU said that the guest powered off */
	const char *ended_because; /* why we ended QEMU; NULL: it ended by itself */
	struct guest *cut_off;     /* a line whose runner is gone, to be failed with the reason */
	int64_t cut_off_until;     /* how long QEMU may take to tell the reason */
	char net_reason[600];      /* why the sandbox's network ended */
	uint64_t kills_before;     /* memory_kills() when QEMU started */

	struct lock mu; /* guards what follows, and the pid in proc */
	enum vm_state state;
	struct err death; /* when state is dead */
};

/* Where a VM belongs. The strings and the specs outlive it. */
struct qemu_vm_where {
	const struct driver_env *env;
	const char *sandbox, *dir;
	const struct vm_spec *spec;
	size_t index; /* in the sandbox's spec */
	struct net *net;
	const struct sandbox_spec *sandbox_spec;
	bool kvm;
};
/* Even if this fails, the VM can be freed. */
int qemu_vm_init(struct qemu_vm *vm, const struct qemu_vm_where *where, struct err *e);
/* Makes the files: overlay, firmware variables, cloud-init disk. */
int qemu_vm_prepare(struct qemu_vm *vm, const struct op *op, struct err *e);
/* Starts QEMU and the monitor. The guest has not run an instruction when this fails. */
int qemu_vm_start(struct qemu_vm *vm, const struct op *op, struct err *e);
/* Lets it stand still; a QEMU that is frozen fails this, and what follows, after a time. */
int qemu_vm_stop(struct qemu_vm *vm, const struct op *op, struct err *e);
/* Lets a running VM stand still for a while. Even if this fails, qemu_vm_let_go must follow. */
int qemu_vm_hold(struct qemu_vm *vm, const struct op *op, struct err *e);
/* Lets it go on. A failure is logged. */
void qemu_vm_let_go(struct qemu_vm *vm);
/* Lets a paused VM run. */
int qemu_vm_continue(struct qemu_vm *vm, const struct op *op, struct err *e);
/* Sends a command that may not be left undone: if it fails, for want of files say, it is sent again
 * as long as op lasts. */
int qemu_vm_insist(struct qemu_vm *vm, const struct op *op, const char *command, struct err *e);
/* The VM is in use from now on: if memory runs out, VMs that are still being made go first. */
void qemu_vm_keep(struct qemu_vm *vm);
/* Ends QEMU, its monitor and its links; the VM can be started again. */
void qemu_vm_end(struct qemu_vm *vm, const char *why);
/* Marks a VM dead that has ended and will not be started again: operations learn why. */
void qemu_vm_bury(struct qemu_vm *vm, const struct err *why);
/* Ends QEMU and releases everything but the files. Fine on a zeroed or half-made VM. */
void qemu_vm_free(struct qemu_vm *vm);

/* Fails, with the reason, if the VM is dead. It may have no monitor any more. */
int qemu_vm_alive(struct qemu_vm *vm, struct err *e);
/* Puts the VM's own reason into e if it is dead or just ending, else leaves e as it is. Returns -1.
 */
int qemu_vm_explain(struct qemu_vm *vm, struct err *e);
/* What people call a source: the store's reference for it, or the file that will be imported. */
const char *qemu_source_name(const struct source_spec *s);
