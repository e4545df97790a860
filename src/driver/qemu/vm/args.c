#include "driver/qemu/vm/args.h"

#include <string.h>

#include "util/json.h"

/* Enough for programs built for x86-64-v2. `max` would cost a quarter of the speed under emulation.
 */
#define TCG_CPU "qemu64,+ssse3,+sse4.1,+sse4.2,+popcnt,+rdrand"
/*
 * Under emulation a guest kernel distrusts the TSC, and each look at the clock becomes a slow trip
 * to an emulated HPET. What it does against speculative execution only costs: there is none here.
 * It must be told how fast the TSC is: measured on a busy host, that has been off by a factor of
 * eight. Nor must it count the timer's ticks, which come late on such a host: if there are too few,
 * it takes the timer for broken and panics.
 */
#define TCG_CMDLINE " tsc=reliable mitigations=off no_timer_check"
/*
 * As many ports as a VM may be given. There is an interrupt for each direction of each port, for
 * the device's own two queues and for its configuration: with fewer, queues share an interrupt, and
 * the guest looks at all of them whenever it comes.
 */
#define PORTS "max_ports=7,vectors=17"
/* Without KVM an eventfd gains nothing: it only makes one more thread wake up.
 */
#define PORTS_DIRECT ",ioeventfd=off"
/* What the card tells the guest to be its monitor's size. The card's own memory is enough for it.
 */
#define SCREEN_WIDTH  "1920"
#define SCREEN_HEIGHT "1080"

static bool old_machine(const struct vm_spec *vm)
{
	/* Real IDE, as old systems want it, is only on the old board. */
	return vm->disk_controller == SPEC_DISK_IDE;
}

/* The memory always has this name, so that another QEMU can load what one has saved, wherever its
 * memory is. */
static void add_memory(const struct qemu_plan *p, struct strv *a)
{
	strv_add(a, "-object");
	if (p->ram == QEMU_RAM_OWN)
		strv_addf(a, "memory-backend-ram,id=ram,size=%uM", p->vm->ram_mb);
	else
		strv_addf(a,
			"memory-backend-file,id=ram,size=%uM,mem-path=/proc/self/fd/%d,share=%s",
			p->vm->ram_mb, QEMU_FD_RAM, p->ram == QEMU_RAM_SHARED ? "on" : "off");
}

/* The new board's SATA controller has nothing on it but a CD: otherwise it would only be one more
 * device to attack and to start. A user's own arguments may put something there, so then it stays.
 */
static const char *board_of(const struct vm_spec *vm)
{
	if (old_machine(vm))
		return "pc";
	return vm->cdrom || json_object_get(vm->native, "args") ? "q35" : "q35,sata=off";
}

static void add_machine(const struct qemu_plan *p, struct strv *a)
{
	strv_addf(a, "%s", p->qemu);
	strv_add_all(a, "-nodefaults", "-no-user-config", "-display", "none", "-name", NULL);
	strv_addf(a, "moat-%s/%s", p->sandbox, p->vm->name);
	strv_add(a, "-sandbox");
	strv_add(a, "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny");
	strv_add(a, "-machine");
	strv_addf(a, "%s,vmport=off,memory-backend=ram", board_of(p->vm));
	strv_add(a, "-accel");
	if (p->kvm)
		strv_add(a, "kvm");
	else
		strv_addf(a, "tcg,tb-size=%d", QEMU_TCG_MB);
	strv_add(a, "-cpu");
	strv_addf(a, "%s", p->vm->cpu ? p->vm->cpu : p->kvm ? "host" : TCG_CPU);
	strv_add(a, "-m");
	strv_addf(a, "%u", p->vm->ram_mb);
	add_memory(p, a);
	strv_add(a, "-smp");
	strv_addf(a, "%u", p->vm->vcpus);
	/* vmgenid: kernels that know it take fresh randomness when they wake up as a copy. */
	strv_add_all(a, "-rtc", "base=utc", "-device", "virtio-rng-pci", "-device",
		"vmgenid,guid=auto", NULL);
}

static void add_socket(struct strv *a, const char *id, int fd)
{
	strv_add(a, "-chardev");
	strv_addf(a, "socket,id=%s,fd=%d", id, fd);
}

static void add_channels(const struct qemu_plan *p, struct strv *a)
{
	add_socket(a, "qmp", QEMU_FD_QMP);
	strv_add_all(a, "-mon", "chardev=qmp,mode=control", NULL);
	add_socket(a, "console", QEMU_FD_CONSOLE);
	strv_add_all(a, "-serial", "chardev:console", "-device", NULL);
	strv_addf(a, "virtio-serial-pci,id=ports," PORTS "%s", p->kvm ? "" : PORTS_DIRECT);
	add_socket(a, "agent", QEMU_FD_AGENT);
	strv_add_all(a, "-device",
		"virtserialport,bus=ports.0,chardev=agent,id=agent-port,name=org.qemu.guest_agent."
		"0",
		NULL);
	add_socket(a, "runner", QEMU_FD_RUNNER);
	strv_add_all(a, "-device",
		"virtserialport,bus=ports.0,chardev=runner,id=" QEMU_RUNNER_PORT
		",name=org.moat.guest.0",
		NULL);
}

/* Makes a block node of a file that QEMU has open already. */
static void add_file_node(struct strv *a, const char *node, int fd, bool read_only)
{
	strv_add(a, "-add-fd");
	strv_addf(a, "fd=%d,set=%d", fd, fd);
	strv_add(a, "-blockdev");
	strv_addf(a, "driver=file,node-name=%s,filename=/dev/fdset/%d,cache.no-flush=on%s", node,
		fd, read_only ? ",read-only=on" : ",discard=unmap");
}

static void add_disk_device(const struct vm_spec *vm, struct strv *a)
{
	switch (vm->disk_controller) {
	case SPEC_DISK_SCSI:
		strv_add_all(a, "-device", "virtio-scsi-pci,id=scsi", "-device",
			"scsi-hd,bus=scsi.0,drive=disk,bootindex=1", NULL);
		return;
	case SPEC_DISK_IDE:
		strv_add_all(a, "-device", "ide-hd,bus=ide.0,drive=disk,bootindex=1", NULL);
		return;
	case SPEC_DISK_DEFAULT:
	case SPEC_DISK_VIRTIO:
		strv_add_all(a, "-device", "virtio-blk-pci,drive=disk,bootindex=1", NULL);
		return;
	}
}

static void add_disk(const struct qemu_plan *p, struct strv *a)
{
	if (!p->image->disk)
		return;
	add_file_node(a, "base-file", QEMU_FD_BASE, true);
	strv_add(a, "-blockdev");
	strv_addf(a, "driver=%s,node-name=base,file=base-file,read-only=on", p->image->disk_format);
	if (p->layered) {
		add_file_node(a, "layer-file", QEMU_FD_LAYER, true);
		strv_add_all(a, "-blockdev",
			"driver=qcow2,node-name=layer,file=layer-file,backing=base,read-only=on",
			NULL);
	}
	add_file_node(a, "disk-file", QEMU_FD_OVERLAY, false);
	strv_add(a, "-blockdev");
	strv_addf(a,
		"driver=qcow2,node-name=disk,file=disk-file,backing=%s,discard=unmap,cache.no-"
		"flush=on",
		p->layered ? "layer" : "base");
	add_disk_device(p->vm, a);
}

/* Behind the disk in the order of booting: an installer starts from the CD, and what it has
 * installed from the disk. Both boards have this bus. */
static void add_cdrom(const struct qemu_plan *p, struct strv *a)
{
	if (!p->vm->cdrom)
		return;
	add_file_node(a, "cdrom-file", QEMU_FD_CDROM, true);
	strv_add_all(a, "-blockdev", "driver=raw,node-name=cdrom,file=cdrom-file,read-only=on",
		"-device", "ide-cd,bus=ide.1,drive=cdrom,bootindex=2", NULL);
}

static void add_cmdline(const struct qemu_plan *p, struct strv *a)
{
	const char *own = p->image->cmdline ? p->image->cmdline : "";

	strv_add(a, "-append");
	if (p->kvm)
		strv_addf(a, "%s", own);
	else if (p->tsc_khz)
		strv_addf(a, "%s" TCG_CMDLINE " tsc_early_khz=%u", own, p->tsc_khz);
	else
		strv_addf(a, "%s" TCG_CMDLINE, own);
}

static void add_boot(const struct qemu_plan *p, struct strv *a)
{
	if (p->uefi) {
		add_file_node(a, "uefi-code", QEMU_FD_UEFI_CODE, true);
		add_file_node(a, "uefi-vars", QEMU_FD_UEFI_VARS, false);
		strv_add_all(a, "-machine", "pflash0=uefi-code,pflash1=uefi-vars", NULL);
	}
	if (!p->kernel)
		return;
	strv_add(a, "-kernel");
	strv_addf(a, "/proc/self/fd/%d", QEMU_FD_KERNEL);
	if (p->image->initrd) {
		strv_add(a, "-initrd");
		strv_addf(a, "/proc/self/fd/%d", QEMU_FD_INITRD);
	}
	add_cmdline(p, a);
}

static void add_extras(const struct qemu_plan *p, struct strv *a)
{
	/* "none": the VNC server listens nowhere; viewers are handed to it (screen/stream.c). */
	if (p->vm->vga == SPEC_VGA_STD)
		strv_add_all(a, "-device", "VGA,xres=" SCREEN_WIDTH ",yres=" SCREEN_HEIGHT, "-vnc",
			"none", NULL);
	if (p->vm->tablet)
		strv_add_all(a, "-device", "qemu-xhci", "-device", "usb-tablet", NULL);
	if (p->seed) {
		add_file_node(a, "seed-file", QEMU_FD_SEED, true);
		strv_add_all(a, "-blockdev",
			"driver=raw,node-name=seed,file=seed-file,read-only=on", "-device",
			"virtio-blk-pci,drive=seed", NULL);
	}
}

static struct mac_addr own_mac(const struct vm_spec *vm, uint64_t mac_base, size_t nic)
{
	uint64_t made = mac_base + nic;

	if (mac_is_set(vm->nics[nic].mac))
		return vm->nics[nic].mac;
	/* 02: locally administered */
	return (struct mac_addr){{0x02, (uint8_t)(made >> 32), (uint8_t)(made >> 24),
		(uint8_t)(made >> 16), (uint8_t)(made >> 8), (uint8_t)made}};
}

struct mac_addr qemu_nic_mac(const struct qemu_plan *p, size_t nic)
{
	if (p->template)
		return (struct mac_addr){{0x02, 'm', 'o', 'a', 't', (uint8_t)nic}};
	return p->net ? net_plan_nic(p->net, p->index, nic)->mac : own_mac(p->vm, p->mac_base, nic);
}

/*
 * What NICs are plugged into. A template's NICs lead nowhere: where the network is made of taps
 * they have taps, too, since a NIC keeps the features of what it was plugged into; elsewhere a hub
 * with one port will do.
 */
static void add_netdev(const struct qemu_plan *p, size_t nic, struct strv *a)
{
	strv_add(a, "-netdev");
	if (p->net)
		strv_addf(a, "tap,id=net%zu,fd=%d", nic, QEMU_FD_NIC + (int)nic);
	else if (p->template)
		strv_addf(a, "hubport,id=net%zu,hubid=%zu", nic, nic);
	else /* restrict: no way to the host or out */
		strv_addf(a, "user,id=net%zu,restrict=on,ipv6=off", nic);
}

static void add_nics(const struct qemu_plan *p, struct strv *a)
{
	const char *model = p->vm->nic_controller == SPEC_NIC_E1000 ? "e1000" : "virtio-net-pci";

	for (size_t i = 0; i < p->vm->n_nics; i++) {
		char mac[MAC_TEXT_MAX];

		add_netdev(p, i, a);
		strv_add(a, "-device");
		strv_addf(a, "%s,netdev=net%zu,mac=%s,romfile=", model, i,
			mac_text(qemu_nic_mac(p, i), mac));
	}
}

int qemu_args(const struct qemu_plan *p, struct strv *ret, struct err *e)
{
	auto_strv struct strv a = {0};
	json_t *more, *one;
	size_t i;

	add_machine(p, &a);
	add_channels(p, &a);
	add_boot(p, &a);
	add_disk(p, &a);
	add_cdrom(p, &a);
	add_nics(p, &a);
	add_extras(p, &a);
	if (p->incoming)
		strv_add_all(&a, "-incoming", "defer", NULL);
	if (p->paused)
		strv_add(&a, "-S");
	more = json_object_get(p->vm->native, "args");
	json_array_foreach(more, i, one)
		strv_addf(&a, "%s", json_string_value(one));
	if (strv_check(&a, e) < 0)
		return -1;
	*ret = a;
	a = (struct strv){0};
	return 0;
}
