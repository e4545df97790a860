#include "store/import/probe.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "util/auto.h"
#include "util/str.h"

enum {
	SECTOR = 512,
};

static const char *const kind_names[] = {[PROBE_QCOW2] = "qcow2",
	[PROBE_RAW] = "raw",
	[PROBE_VMDK] = "vmdk",
	[PROBE_VDI] = "vdi",
	[PROBE_VHDX] = "vhdx",
	[PROBE_OVA] = "ova",
	[PROBE_GZIP] = "gzip",
	[PROBE_XZ] = "xz",
	[PROBE_ZSTD] = "zstd"};

const char *probe_kind_name(enum probe_kind kind)
{
	return kind_names[kind];
}

static bool has(struct bytes in, size_t at, const char *magic, size_t n)
{
	return at + n <= in.len && memcmp(in.p + at, magic, n) == 0;
}
#define HAS(in, at, magic) has(in, at, magic, sizeof(magic) - 1)

static uint64_t get_be(const uint8_t *p, unsigned n)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < n; i++)
		v = v << 8 | p[i];
	return v;
}

static uint64_t get_le64(const uint8_t *p)
{
	return get_le32(p) | (uint64_t)get_le32(p + 4) << 32;
}

static int check_qcow2(struct bytes h, struct err *e)
{
	enum { INCOMPATIBLE_DIRTY = 1, INCOMPATIBLE_CORRUPT = 2, INCOMPATIBLE_DATA_FILE = 4 };
	uint64_t version, incompatible;

	if (h.len < 72)
		return err_set(e, ERR_INVALID, "a qcow2 file cut short");
	version = get_be(h.p + 4, 4);
	if (version == 1)
		return err_set(e, ERR_UNSUPPORTED, "its format is qcow (version 1)");
	if (version != 2 && version != 3)
		return err_set(e, ERR_UNSUPPORTED, "qcow2 of an unknown version");
	if (version == 3 && h.len < 104)
		return err_set(e, ERR_INVALID, "a qcow2 file cut short");
	if (get_be(h.p + 8, 8) || get_be(h.p + 16, 4))
		return err_set(e, ERR_INVALID,
			"it is an overlay that needs another file (a backing file); merge them "
			"first: "
			"qemu-img convert -O qcow2");
	if (get_be(h.p + 32, 4))
		return err_set(e, ERR_UNSUPPORTED, "it is an encrypted qcow2 file");
	incompatible = version == 3 ? get_be(h.p + 72, 8) : 0;
	if (incompatible & INCOMPATIBLE_DATA_FILE)
		return err_set(e, ERR_INVALID,
			"its data is in another file; merge them first: "
			"qemu-img convert -O qcow2");
	if (incompatible & INCOMPATIBLE_CORRUPT)
		return err_set(e, ERR_INVALID, "it is marked as damaged; see: qemu-img check");
	return 0;
}

/*
 * A sparse vmdk holds its data itself, unless its header has capacity 0: then QEMU follows the
 * descriptor in it to other files. The descriptor may also name a parent. QEMU looks for that in
 * the second sector and a few after it, whatever the header says; we search all of the head.
 */
static int check_vmdk(struct bytes h, struct err *e)
{
	static const char parent[] = "parentFileNameHint";

	if (h.len < SECTOR)
		return err_set(e, ERR_INVALID, "a vmdk file cut short");
	if (get_le64(h.p + 12) == 0)
		return err_set(e, ERR_INVALID, "it is a vmdk whose data is in other files");
	if (memmem(h.p, h.len, parent, sizeof(parent) - 1))
		return err_set(e, ERR_INVALID,
			"it is a vmdk snapshot that needs another file (its parent); merge them "
			"first");
	return 0;
}

/* A VDI says of what type it is: a snapshot needs its parent. QEMU reads the other two. */
static int check_vdi(struct bytes h, struct err *e)
{
	enum { TYPE_AT = 0x4c, DYNAMIC = 1, FIXED = 2, UNDO = 3, DIFFERENCE = 4 };
	uint32_t type;

	if (h.len < SECTOR)
		return err_set(e, ERR_INVALID, "a vdi file cut short");
	type = get_le32(h.p + TYPE_AT);
	if (type == UNDO || type == DIFFERENCE)
		return err_set(e, ERR_INVALID,
			"it is a vdi snapshot that needs another file (its parent); merge them "
			"first");
	if (type != DYNAMIC && type != FIXED)
		return err_set(e, ERR_UNSUPPORTED, "vdi of an unknown type");
	return 0;
}

static bool find_compressed(struct bytes h, enum probe_kind *ret)
{
	if (HAS(h, 0, "\x1f\x8b"))
		*ret = PROBE_GZIP;
	else if (HAS(h, 0,
			 "\xfd"
			 "7zXZ"))
		*ret = PROBE_XZ;
	else if (HAS(h, 0, "\x28\xb5\x2f\xfd"))
		*ret = PROBE_ZSTD;
	else
		return false;
	return true;
}

static const char *other_format(struct bytes h)
{
	static const struct {
		size_t at;
		const char *magic;
		unsigned len;
		const char *name;
	} known[] = {
		{0, "COWD", 4, "vmdk of ESX 3 (COWD)"},
		{0, "conectix", 8, "vhd"},
		{0, "QED", 4, "qed"},
		{0, "WithoutFreeSpace", 16, "parallels"},
		{0, "WithouFreSpacExt", 16, "parallels"},
		{0, "LUKS\xba\xbe", 6, "luks (encrypted)"},
		{0, "BZh", 3, "bzip2: unpack it first"},
		{0, "PK\x03\x04", 4, "zip: unpack it first"},
		{0, "7z\xbc\xaf\x27\x1c", 6, "7z: unpack it first"},
		{0x8001, "CD001", 5,
			"iso (an installation medium, not an installed disk): moat up --cdrom "
			"FILE"},
	};

	for (unsigned i = 0; i < ARRAY_LEN(known); i++)
		if (has(h, known[i].at, known[i].magic, known[i].len))
			return known[i].name;
	return NULL;
}

/* Raw images have no signature; these are signatures of what disks begin with. */
static bool looks_raw(const struct probe_in *in)
{
	return HAS(in->head, 510, "\x55\xaa")      /* boot sector, also of GPT disks */
	       || HAS(in->head, 0x438, "\x53\xef") /* ext2, ext3, ext4 */
	       || HAS(in->head, 0, "XFSB") || str_ends(in->name, ".raw") ||
	       str_ends(in->name, ".img");
}

int probe_disk(const struct probe_in *in, enum probe_kind *ret, struct err *e)
{
	const char *other;

	if (in->size == 0)
		return err_set(e, ERR_INVALID, "it is empty");
	if (HAS(in->head, 0, "QFI\xfb")) {
		*ret = PROBE_QCOW2;
		return check_qcow2(in->head, e);
	}
	if (HAS(in->head, 0, "KDMV")) {
		*ret = PROBE_VMDK;
		return check_vmdk(in->head, e);
	}
	if (HAS(in->head, 0x40, "\x7f\x10\xda\xbe")) {
		*ret = PROBE_VDI;
		return check_vdi(in->head, e);
	}
	/* Whether it needs a parent is too far behind to be seen here. QEMU refuses that. */
	if (HAS(in->head, 0, "vhdxfile")) {
		*ret = PROBE_VHDX;
		return 0;
	}
	if (find_compressed(in->head, ret))
		return 0;
	if (HAS(in->head, 0, "# Disk DescriptorFile"))
		return err_set(e, ERR_INVALID,
			"it is a vmdk descriptor whose data is in other files; "
			"make one file of them: qemu-img convert -O qcow2");
	other = other_format(in->head);
	if (other)
		return err_set(e, ERR_UNSUPPORTED,
			"its format is %s; moat takes qcow2, raw, vmdk, vdi, vhdx "
			"and ova",
			other);
	if (HAS(in->head, 257, "ustar")) {
		*ret = PROBE_OVA;
		return 0;
	}
	if (in->size % SECTOR == 0 && looks_raw(in)) {
		*ret = PROBE_RAW;
		return 0;
	}
	return err_set(e, ERR_INVALID,
		"not a disk image: neither qcow2, raw, vmdk, vdi, vhdx nor "
		"ova");
}
