/* args.h - from a VM's spec to QEMU's command line. Pure, golden-tested: the argv is the whole
 * truth about a VM. */
#pragma once

#include "net/plan/plan.h"
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
	QEMU_FD_RAM,
	QEMU_FD_LAYER,
	QEMU_FD_CDROM,
	QEMU_FD_END,
	QEMU_FD_NIC = 64, /* the first of the taps */
};

/* How much translated code QEMU may keep, in MB. The guest decides how much there is, and QEMU's
 * own limit would be a gigabyte. */
enum { QEMU_TCG_MB = 192 };

#define QEMU_RUNNER_PORT "moat-runner" /* device id: how QMP events name the runner's port */

enum qemu_ram {
	QEMU_RAM_OWN,
	QEMU_RAM_SHARED, /* QEMU_FD_RAM itself: it becomes a template */
	QEMU_RAM_COPIED, /* QEMU_FD_RAM, copy-on-write */
};

struct qemu_plan {
	const char *qemu;    /* program */
	const char *sandbox; /* id */
	const struct vm_spec *vm;
	const struct image *image;
	bool kvm;
	unsigned tsc_khz;           /* the clock of guests without KVM; 0: let them measure it */
	bool seed;                  /* there is a cloud-init disk */
	const char *uefi;           /* non-NULL: boot with UEFI firmware */
	const struct net_plan *net; /* NULL: each NIC is alone on a user-mode network */
	size_t index;               /* of the VM in the spec */
	uint64_t mac_base;          /* without net: 40 random bits for MACs of NICs without one */
	const char *kernel;         /* which of the image's kernels; NULL: boot from the disk */
	enum qemu_ram ram;
	bool template; /* it becomes a template: its NICs lead nowhere */
	bool layered;  /* QEMU_FD_LAYER is between the overlay and the image */
	bool incoming; /* waits for a saved state */
	bool paused;   /* runs only when told */
};

/* The address of a NIC; the NICs of templates have the same in all templates. */
struct mac_addr qemu_nic_mac(const struct qemu_plan *plan, size_t nic);

int qemu_args(const struct qemu_plan *plan, struct strv *ret, struct err *e);
