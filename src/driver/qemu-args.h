/* qemu-args.h - from a VM's spec to QEMU's command line. Pure, golden-tested: the argv is the whole
 * truth about a VM. */
#pragma once

#include "net/plan.h"
#include "store/store.h"
#include "util/strv.h"

/*
 * The numbers under which QEMU finds its open files. It gets everything this way and opens no path
 * of ours: it may run as nobody, and it cannot be talked into another file.
 */
enum qemu_fd {
	QEMU_FD_QMP = 10,
	QEMU_FD_AGENT,
	QEMU_FD_RUNNER,
	QEMU_FD_CONSOLE,
	QEMU_FD_OVERLAY,
	QEMU_FD_BASE,
	QEMU_FD_KERNEL,
	QEMU_FD_INITRD,
	QEMU_FD_UEFI_CODE,
	QEMU_FD_UEFI_VARS,
	QEMU_FD_SEED,
	QEMU_FD_END,
	QEMU_FD_NIC = 64, /* the first of the taps */
};

#define QEMU_RUNNER_PORT "moat-runner" /* device id: how QMP events name the runner's port */

struct qemu_plan {
	const char *qemu;    /* program */
	const char *sandbox; /* id */
	const struct vm_spec *vm;
	const struct image *image;
	bool kvm;
	bool seed;                  /* there is a cloud-init disk */
	const char *uefi;           /* non-NULL: boot with UEFI firmware */
	const struct net_plan *net; /* NULL: each NIC is alone on a user-mode network */
	size_t index;               /* of the VM in the spec */
	uint64_t mac_base;          /* without net: 40 random bits for MACs of NICs without one */
	const char *kernel;         /* which of the image's kernels; NULL: boot from the disk */
};

int qemu_args(const struct qemu_plan *plan, struct strv *ret, struct err *e);
