/*
 * QEMU's command line for one VM of each kind, against tests/golden/qemu/NAME.args: one argument a
 * line. See golden.h.
 */
#include "driver/qemu/vm/args.h"

#include "golden.h"
#include "spec/yaml.h"
#include "util/json.h"

/* Texts of an image are never written to; the store makes them with malloc. */
static char tiny_kernel[] = "/i/vmlinux", tiny_initrd[] = "/i/initrd",
	    cmdline[] = "console=ttyS0 quiet", disk[] = "/i/disk", qcow2[] = "qcow2", raw[] = "raw";
static const struct image tiny = {.kernel = tiny_kernel, .initrd = tiny_initrd, .cmdline = cmdline};
static const struct image debian = {
	.kernel = tiny_kernel, .cmdline = cmdline, .disk = disk, .disk_format = raw};
static const struct image imported = {.disk = disk, .disk_format = qcow2};

static const struct row {
	const char *name, *vm; /* the VM as a spec has it */
	const struct image *image;
	bool kvm;
	enum qemu_ram ram;
	bool taps; /* NICs are on the sandbox's own network */
} rows[] = {
	{"tiny", "source: tiny", &tiny, false},
	{"kvm", "source: tiny, ram_mb: 512, vcpus: 4", &tiny, true},
	{"cpu", "source: tiny, cpu: 'Nehalem,+aes'", &tiny, true},
	{"debian-virtio", "source: {built_in: debian12}, disk_controller: virtio", &debian, false},
	{"debian-scsi", "source: {built_in: debian12}, disk_controller: scsi", &debian, false},
	{"imported-ide", "source: old, disk_controller: ide, nic_controller: e1000", &imported,
		false},
	{"uefi", "source: {built_in: debian12}, uefi_boot: true", &debian, false},
	{"uefi-disk", "source: imported, uefi_boot: true", &imported, true},
	{"e1000-mac",
		"source: tiny, nic_controller: e1000, nics: [{vnet: default, mac: "
		"'52:54:00:ab:cd:ef'}, {vnet: default}]",
		&tiny, false},
	{"no-nic", "source: tiny, nics: []", &tiny, false},
	{"vga-tablet", "source: tiny, vga: std, tablet: true", &tiny, false},
	{"cloud-init", "source: imported, cloud_init: {user_data: '#cloud-config'}", &imported,
		false},
	{"cdrom", "source: imported, cdrom: /x/install.iso", &imported, false},
	{"cdrom-ide", "source: imported, cdrom: /x.iso, disk_controller: ide", &imported, true},
	{"template", "source: {built_in: debian12}", &debian, false, QEMU_RAM_SHARED},
	{"copy", "source: {built_in: debian12}", &debian, false, QEMU_RAM_COPIED},
	{"native-args", "source: tiny, native: {args: [-device, 'usb-ehci,id=e', '']}", &tiny,
		false},
	{"taps", "source: tiny, nics: [{vnet: default, mac: '52:54:00:ab:cd:ef'}, {vnet: default}]",
		&tiny, false, QEMU_RAM_OWN, true},
	{"template-taps", "source: tiny, nic_controller: e1000", &tiny, false, QEMU_RAM_SHARED,
		true},
};

static int args_of(const struct row *row, struct strv *ret, struct err *e)
{
	char text[400];
	auto_json json_t *j = NULL;
	auto_spec struct sandbox_spec *spec = NULL;
	auto_net_plan struct net_plan *net = NULL;
	struct qemu_plan plan = {.qemu = "qemu-system-x86_64",
		.sandbox = "0123456789",
		.image = row->image,
		.kvm = row->kvm,
		.mac_base = 0xfffe0102030405ff}; /* only 40 bits of it count */

	snprintf(text, sizeof(text), "vms: [{name: vm, %s}]", row->vm);
	if (spec_text_to_json((struct bytes){(uint8_t *)text, strlen(text)}, &j, e) < 0 ||
		spec_parse(j, &spec, e) < 0)
		return -1;
	if (row->taps && net_plan_make(spec, 0x0102030405, &net, e) < 0)
		return -1;
	plan.vm = &spec->vms[0];
	plan.net = net;
	plan.seed = plan.vm->cloud_init != NULL;
	plan.uefi = plan.vm->uefi_boot ? "ovmf" : NULL;
	plan.kernel = row->image->kernel;
	plan.tsc_khz = 2445430;
	plan.ram = row->ram;
	plan.template = plan.paused = row->ram == QEMU_RAM_SHARED;
	plan.layered = plan.incoming = row->ram == QEMU_RAM_COPIED;
	return qemu_args(&plan, ret, e);
}

static void test_row(const struct row *row)
{
	auto_buf struct buf b = {0};
	auto_strv struct strv args = {0};
	char path[300];
	struct err e;

	if (args_of(row, &args, &e) < 0) {
		tap_ok(0, "%s: %s", row->name, e.msg);
		return;
	}
	for (size_t i = 0; i < args.n; i++)
		buf_printf(&b, &e, "%s\n", args.v[i]);
	snprintf(path, sizeof(path), QEMU_GOLDEN "/%s.args", row->name);
	golden_check(&b, path, row->name);
}

int main(void)
{
	for (unsigned i = 0; i < ARRAY_LEN(rows); i++)
		test_row(&rows[i]);
	OK(entries_in(QEMU_GOLDEN) == ARRAY_LEN(rows)); /* no golden file that nobody reads */
	return tap_done();
}
