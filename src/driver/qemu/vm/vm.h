/*
 * qemu-vm.h - one local VM: its files, its QEMU, the thread that watches it, the way into its
 * guest.
 *
 * Thread contract: prepare, start and free are called by the box's owner, one at a time; the rest
 * by any thread between start and free. mu is a leaf lock over the members named below it.
 */
#pragma once

#include <pthread.h>

#include "driver/caplog.h"
#include "driver/driver.h"
#include "driver/qmp.h"
#include "driver/ways.h"
#include "guest/qga.h"
#include "net/net.h"
#include "util/proc.h"
#include "util/turn.h"

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
	int template_ram;          /* it is to become a template: its memory; -1: it is not */
	const char *load;          /* the state to start from; NULL: it boots */
	bool paused;               /* it waits for qemu_vm_continue */
	bool copied;               /* made from a template: its identity is not its own yet */
	bool runner_waits;         /* the runner is in its memory already */
	bool identified;           /* it has been made itself, or needed not be */
	char cold_reason[160];     /* "": it started warm, or need not have */

	struct proc proc;
	int qmp_fd, agent_fd, runner_fd, console_fd, stderr_fd;
	struct qmp *qmp;
	struct caplog console, backend; /* written by the monitor alone */
	pthread_t monitor;
	bool monitor_runs;
	int stop_fd;
	int dead_fd; /* eventfd: readable when state is dead */

	struct ways ways;
	struct qga *qga;    /* for whoever opens a way */
	bool said_fallback; /* the same */

	pthread_mutex_t mu;
	enum box_vm_state state;
	bool guest_shut_down;      /* QEMU said that the guest powered off */
	const char *ended_because; /* we ended it, and why; the monitor thread's alone */
	struct guest *cut_off;     /* the same: what a runner that is gone was to answer */
	int64_t cut_off_until;     /* the same: so long may QEMU take to say why */
	char net_reason[600];      /* the same: why its network ended */
	struct err death;          /* when state is dead */
	uint64_t kills_before;     /* memory_kills() when it started */
};

/* Whatever happens next, it can be freed. The strings and the spec outlive it. */
struct qemu_vm_where {
	const struct driver_env *env;
	const char *sandbox, *dir;
	const struct vm_spec *spec;
	size_t index; /* in the sandbox's spec */
	struct net *net;
	const struct sandbox_spec *sandbox_spec;
	bool kvm;
};
int qemu_vm_init(struct qemu_vm *vm, const struct qemu_vm_where *where, struct err *e);
/* Makes the files: overlay, firmware variables, cloud-init disk. */
int qemu_vm_prepare(struct qemu_vm *vm, const struct op *op, struct err *e);
/* Starts QEMU and the monitor. The guest has not run an instruction when this fails. */
int qemu_vm_start(struct qemu_vm *vm, const struct op *op, struct err *e);
/* Lets a paused one run. */
int qemu_vm_continue(struct qemu_vm *vm, const struct op *op, struct err *e);
/* For what may not be left undone: a call that fails, for want of files say, is made again as long
 * as op lasts. */
int qemu_vm_insist(struct qemu_vm *vm, const struct op *op, const char *command, struct err *e);
/* Somebody has it from now on: if memory runs out, those that are still being made go first. */
void qemu_vm_keep(struct qemu_vm *vm);
/* Ends QEMU and all that hangs on it; it can be started again. */
void qemu_vm_end(struct qemu_vm *vm, const char *why);
/* It has ended, and will not be started again: operations learn why. */
void qemu_vm_bury(struct qemu_vm *vm, const struct err *why);
/* Ends QEMU and releases everything but the files. Fine on a zeroed or half-made VM. */
void qemu_vm_free(struct qemu_vm *vm);

/* The monitor thread's main; arg is the VM. */
void *qemu_vm_monitor(void *arg);
/* On that thread, for what QEMU tells: the runner is gone, and this is why. */
void qemu_vm_cut_off(struct qemu_vm *vm, const char *why);
#define RUNNER_ENDED "the guest runner ended"
/* -1, and why, if it is dead: it may have no monitor any more. */
int qemu_vm_alive(struct qemu_vm *vm, struct err *e);
/* Puts the VM's own reason into e if it is dead or just ending, else leaves e as it is. Returns -1.
 */
int qemu_vm_explain(struct qemu_vm *vm, struct err *e);

/* The way in (qemu-guest.c). */
extern const struct ways_ops qemu_ways;

/* Saved states (qemu-state.c). A VM is stopped before and stays so. With own_memory all of its
 * memory is in the file, otherwise only what is not in a template's memory file. */
int qemu_state_save(
	struct qemu_vm *vm, const struct op *op, const char *path, bool own_memory, struct err *e);
/* Tells a QEMU that waits for it where its state is. It has no effect yet when this returns. */
int qemu_state_load(struct qemu_vm *vm, const struct op *op, struct err *e);
/* Waits until the state is there. */
int qemu_state_wait(struct qemu_vm *vm, const struct op *op, struct err *e);
int qemu_links_set(struct qemu_vm *vm, const struct op *op, bool up, struct err *e);

/* In a template's directory: the kinds of SSH host keys that its system has, one a line. */
#define TEMPLATE_HOSTKEYS "host-keys"

/* Templates (qemu-template.c). Decides how the VM starts: sets template and load, or cold_reason.
 * Makes the template if need be. Fails only if the operation ends. */
int qemu_template_choose(struct qemu_vm *vm, const struct op *op, struct err *e);
/* The start from a template failed: throws it all away, the template too, and boots. */
int qemu_vm_go_cold(struct qemu_vm *vm, const struct op *op, const struct err *why, struct err *e);
/* After the start, before anybody else gets in: gives a copy what must be its own, and its network
 * (qemu-identity.c). */
int qemu_identify(struct qemu_vm *vm, const struct op *op, struct err *e);
/* Waits for a while until DHCP has given addresses to such a copy, where others may want to reach
 * it. */
int qemu_await_addresses(struct qemu_vm *vm, const struct op *op, struct err *e);

int qemu_screenshot(struct qemu_vm *vm, const struct op *op, struct buf *ret, struct err *e);
int qemu_doctor(const struct driver_env *env, const struct op *op,
	void (*say)(void *arg, const struct check *c), void *arg, struct err *e);
/* Ends processes of ours whose command line carries this sandbox's stamp; the number found. */
int qemu_kill_stamped(const struct op *op, const char *sandbox, unsigned *ret_found, struct err *e);
