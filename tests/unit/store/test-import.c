/* Imports disks: good ones of each format, hostile ones, and with a full disk. */
#include <archive.h>
#include <archive_entry.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/random.h>

#include "test-store.h"
#include "util/system/confine.h"

static const char ovf[] =
	"<Envelope><References><File ovf:id='f2' ovf:href='cd.iso'/>"
	"<File ovf:href='system.vmdk' ovf:id='f1'/></References>"
	"<DiskSection><Disk ovf:diskId='d' ovf:fileRef='f1'/></DiskSection></Envelope>";

static bool run(const char *const *argv)
{
	struct proc_req req = {.argv = argv, .out_max = 1 << 20};
	struct op op = plain_op(60);
	struct err e;

	if (proc_run_ok(&op, &req, &e) == 0)
		return true;
	printf("# %s\n", e.msg);
	return false;
}

static bool convert(const char *format, const char *options, const char *name)
{
	const char *argv[] = {"qemu-img", "convert", "-q", "-f", "raw", "-O", format,
		at("disk.raw"), at("%s", name), options ? "-o" : NULL, options, NULL};

	return run(argv);
}

/* A disk of 4 MiB with a boot sector and some noise. */
static void make_disk(const char *path, size_t noise)
{
	auto_free uint8_t *data = calloc(1, 4 << 20);
	struct err e;

	for (size_t i = 0; i < noise; i += 256)
		if (getrandom(data + i, 256, 0) != 256)
			abort();
	memcpy(data + 510, "\x55\xaa", 2);
	if (file_write_atomic(path, data, 4 << 20, 0600, &e) < 0)
		abort();
}

/* Returns the error's kind, ERR_NONE on success; `said` is the message or the digest. */
static char said[1100];
static enum err_kind import(struct store *st, const struct import_req *req)
{
	auto_image struct image *img = NULL;
	struct op op = plain_op(60);
	struct err e = {0};

	if (store_import(st, &op, req, &img, &e) < 0) {
		snprintf(said, sizeof(said), "%s", e.msg);
		return e.kind;
	}
	snprintf(said, sizeof(said), "%s", img->digest);
	return ERR_NONE;
}

static enum err_kind import_file(struct store *st, const char *file, const char *name)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/%s", home, file);
	return import(st, &(struct import_req){.path = path, .name = name});
}

/* Whether the imported disk holds the same bytes as the disk that all images were made from. */
static bool same_as_disk(struct store *st, const char *name)
{
	auto_image struct image *img = NULL;
	const char *argv[] = {"qemu-img", "compare", "-q", "-f", "raw", "-F", "qcow2",
		at("disk.raw"), NULL, NULL};
	struct err e;

	if (store_find(st, name, &img, &e) < 0)
		return false;
	argv[8] = img->disk;
	return strcmp(img->disk_format, "qcow2") == 0 && run(argv);
}

static void test_formats(struct store *st)
{
	OK(import_file(st, "disk.raw", "from-raw") == ERR_NONE && same_as_disk(st, "from-raw"));
	OK(convert("qcow2", NULL, "disk.qcow2"));
	OK(import_file(st, "disk.qcow2", "from-qcow2") == ERR_NONE);
	OK(same_as_disk(st, "from-qcow2"));
	OK(convert("qcow2", "compat=0.10", "old.qcow2"));
	OK(import_file(st, "old.qcow2", "from-old") == ERR_NONE && same_as_disk(st, "from-old"));
	OK(convert("vmdk", "subformat=monolithicSparse", "sparse.vmdk"));
	OK(import_file(st, "sparse.vmdk", "from-vmdk") == ERR_NONE);
	OK(same_as_disk(st, "from-vmdk"));
	OK(convert("vmdk", "subformat=streamOptimized", "stream.vmdk"));
	OK(import_file(st, "stream.vmdk", "from-stream") == ERR_NONE);
	OK(same_as_disk(st, "from-stream"));
}

static void test_details(struct store *st)
{
	auto_image struct image *img = NULL;
	char path[300], first[1100];
	struct import_req req = {
		.path = path, .user = "kali", .os_type = "win11", .firmware = "uefi"};
	struct err e;

	snprintf(path, sizeof(path), "%s/my disk.qcow2", home);
	OK(rename(at("disk.qcow2"), path) == 0);
	OK(import(st, &req) == ERR_NONE);
	OK(store_find(st, "my-disk", &img, &e) == 0);
	STR_IS(img->user, "kali");
	STR_IS(img->os_type, "win11");
	STR_IS(img->firmware, "uefi");
	OK(!img->kernel);
	/* The same content again: the same image under one more name, and nothing converted. */
	memcpy(first, said, sizeof(first));
	req.name = "again";
	OK(import(st, &req) == ERR_NONE);
	STR_IS(said, first);
	req.user = "other";
	OK(import(st, &req) == ERR_NONE);
	OK(strcmp(said, first) != 0);
	req.firmware = "toaster";
	OK(import(st, &req) == ERR_INVALID);
	req = (struct import_req){.path = path, .name = "../x"};
	OK(import(st, &req) == ERR_INVALID);
	req = (struct import_req){.path = "relative.qcow2"};
	OK(import(st, &req) == ERR_INVALID);
}

/* Makes a tar file of (name, file or text) pairs. */
static void make_ova(const char *path, const char *const (*entries)[2])
{
	struct archive *a = archive_write_new();

	archive_write_set_format_ustar(a);
	archive_write_open_filename(a, path);
	for (; (*entries)[0]; entries++) {
		struct archive_entry *entry = archive_entry_new();
		auto_free char *data = NULL;
		const char *bytes = (*entries)[1];
		size_t len = strlen(bytes);
		struct err e;

		if (bytes[0] == '/' && file_read(bytes, 64 << 20, &data, &len, &e) == 0)
			bytes = data;
		archive_entry_set_pathname(entry, (*entries)[0]);
		archive_entry_set_filetype(entry, AE_IFREG);
		archive_entry_set_perm(entry, 0600);
		archive_entry_set_size(entry, (int64_t)len);
		archive_write_header(a, entry);
		archive_write_data(a, bytes, len);
		archive_entry_free(entry);
	}
	archive_write_free(a);
}

static void test_ova(struct store *st)
{
	char vmdk[300];

	snprintf(vmdk, sizeof(vmdk), "%s/stream.vmdk", home);
	make_ova(at("good.ova"), (const char *const[][2]){{"vm/vm.ovf", ovf}, {"other.vmdk", "no"},
					 {"vm/system.vmdk", vmdk}, {NULL}});
	OK(import_file(st, "good.ova", NULL) == ERR_NONE && same_as_disk(st, "good"));
	make_ova(at("bare.ova"),
		(const char *const[][2]){{"readme", "x"}, {"a.vmdk", vmdk}, {NULL}});
	OK(import_file(st, "bare.ova", NULL) == ERR_NONE && same_as_disk(st, "bare"));
	make_ova(at("hollow.ova"),
		(const char *const[][2]){{"vm.ovf", ovf}, {"other.vmdk", vmdk}, {NULL}});
	OK(import_file(st, "hollow.ova", NULL) == ERR_INVALID && strstr(said, "no system.vmdk"));
	make_ova(at("evil.ova"),
		(const char *const[][2]){{"vm.ovf", ovf},
			{"system.vmdk", "# Disk DescriptorFile\nRW 8 FLAT \"/etc/passwd\" 0\n"},
			{NULL}});
	OK(import_file(st, "evil.ova", NULL) == ERR_INVALID && strstr(said, "the disk in it"));
	make_ova(at("junk.ova"), (const char *const[][2]){{"readme", "x"}, {NULL}});
	OK(import_file(st, "junk.ova", NULL) == ERR_INVALID && strstr(said, "no .ovf"));
	OK(truncate(at("good.ova"), 200000) == 0);
	OK(import_file(st, "good.ova", "cut") == ERR_INVALID && strstr(said, "OVA"));
	OK(store_is_clean());
}

/* Compresses a file of the test. */
static bool pack(const char *program, const char *file)
{
	const char *argv[] = {program, "-k", "-q", at("%s", file), NULL};

	return run(argv);
}

static void test_other_formats(struct store *st)
{
	OK(convert("vdi", NULL, "disk.vdi"));
	OK(import_file(st, "disk.vdi", NULL) == ERR_NONE && same_as_disk(st, "disk"));
	OK(convert("vdi", "static=on", "static.vdi"));
	OK(import_file(st, "static.vdi", NULL) == ERR_NONE && same_as_disk(st, "static"));
	OK(convert("vhdx", NULL, "windows.vhdx"));
	OK(import_file(st, "windows.vhdx", NULL) == ERR_NONE && same_as_disk(st, "windows"));
}

static void test_compressed(struct store *st)
{
	OK(convert("qcow2", NULL, "small.qcow2"));
	OK(pack("gzip", "disk.raw") && pack("xz", "small.qcow2") && pack("zstd", "disk.vdi"));
	OK(import_file(st, "disk.raw.gz", NULL) == ERR_NONE && same_as_disk(st, "disk"));
	OK(import_file(st, "small.qcow2.xz", NULL) == ERR_NONE && same_as_disk(st, "small"));
	OK(import_file(st, "disk.vdi.zst", "zstd") == ERR_NONE && same_as_disk(st, "zstd"));
	OK(pack("xz", "disk.raw.gz"));
	OK(import_file(st, "disk.raw.gz.xz", "x") == ERR_INVALID && strstr(said, "archive"));
	OK(truncate(at("disk.raw.gz"), 500) == 0);
	OK(import_file(st, "disk.raw.gz", "x") == ERR_INVALID && strstr(said, "cut short"));
	/* What is inside is looked at as any other disk. */
	write_file(at("flat.raw"), "# Disk DescriptorFile\nRW 8 FLAT \"/etc/passwd\" 0\n");
	OK(pack("gzip", "flat.raw"));
	OK(import_file(st, "flat.raw.gz", "x") == ERR_INVALID && strstr(said, "other files"));
	OK(store_is_clean());
}

static void test_hostile(struct store *st)
{
	const char *overlay[] = {"qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b",
		at("disk.raw"), at("overlay.qcow2"), NULL};
	const char *external[] = {"qemu-img", "create", "-q", "-f", "qcow2", "-o", NULL,
		at("external.qcow2"), "1M", NULL};
	char option[400];

	OK(run(overlay));
	OK(import_file(st, "overlay.qcow2", "x") == ERR_INVALID && strstr(said, "backing file"));
	snprintf(option, sizeof(option), "data_file=%s/data.bin", home);
	external[6] = option;
	OK(run(external));
	OK(import_file(st, "external.qcow2", "x") == ERR_INVALID && strstr(said, "another file"));
	OK(convert("vmdk", "subformat=monolithicFlat", "flat.vmdk"));
	OK(import_file(st, "flat.vmdk", "x") == ERR_INVALID && strstr(said, "other files"));
	OK(convert("vpc", NULL, "disk.vhd"));
	OK(import_file(st, "disk.vhd", "x") == ERR_UNSUPPORTED && strstr(said, "vhd"));
	write_file(at("letter.txt"), "Dear Sir or Madam");
	OK(import_file(st, "letter.txt", "x") == ERR_INVALID && strstr(said, "not a disk image"));
	OK(import_file(st, "no-such-file", "x") == ERR_NOT_FOUND && strstr(said, "no-such-file"));
	OK(import_file(st, "recipes", "x") == ERR_IS_DIR);
	OK(mkfifo(at("fifo"), 0600) == 0 && import_file(st, "fifo", "x") == ERR_INVALID);
	/* A truncated image: QEMU would read zeros for what is missing. */
	OK(convert("qcow2", NULL, "torn.qcow2") && truncate(at("torn.qcow2"), 1000) == 0);
	OK(import_file(st, "torn.qcow2", "x") == ERR_INVALID && strstr(said, "cut short"));
	OK(convert("qcow2", NULL, "torn.qcow2") && truncate(at("torn.qcow2"), 700000) == 0);
	OK(import_file(st, "torn.qcow2", "x") == ERR_INVALID && strstr(said, "cut short"));
	OK(truncate(at("sparse.vmdk"), 700000) == 0);
	OK(import_file(st, "sparse.vmdk", "x") != ERR_NONE && !strstr(said, "/proc/self"));
	OK(truncate(at("stream.vmdk"), 700000) == 0);
	OK(import_file(st, "stream.vmdk", "x") != ERR_NONE && !strstr(said, "/proc/self"));
	OK(store_is_clean());
	OK(count_entries(at("data/images/names"), "x") == 0);
}

static bool put(const char *path, const char *text)
{
	auto_fd int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* Enters a mount namespace, in a user namespace unless we are root. */
static bool own_mounts(void)
{
	char uid_map[64], gid_map[64];

	snprintf(uid_map, sizeof(uid_map), "%u %u 1", (unsigned)getuid(), (unsigned)getuid());
	snprintf(gid_map, sizeof(gid_map), "%u %u 1", (unsigned)getgid(), (unsigned)getgid());
	if (unshare(CLONE_NEWNS) == 0)
		return true;
	return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && put("/proc/self/uid_map", uid_map) &&
	       put("/proc/self/setgroups", "deny") && put("/proc/self/gid_map", gid_map);
}

/* Imports into a data directory of 1 MiB, in a mount namespace. 77: not allowed here. */
static int no_space(void)
{
	struct store *st;
	enum err_kind kind;

	if (!own_mounts())
		return 77;
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("none", at("data"), "tmpfs", 0, "size=1m") < 0)
		return 77;
	st = open_store();
	kind = import_file(st, "noise.raw", "noise");
	if (kind == ERR_NONE || !strstr(said, "No space left on device") || !store_is_clean())
		printf("# %s\n", said);
	else
		kind = ERR_NONE;
	store_close(st);
	return kind == ERR_NONE ? 0 : 1;
}

static void test_no_space(void)
{
	int code;

	make_disk(at("noise.raw"), 3 << 20);
	fflush(stdout);
	code = end_of(start_self("no-space", "-"));
	if (code == 77)
		printf("# may not mount: no test of a full disk\n");
	else
		OK(code == 0);
}

/* In place of qemu-img: a program that fails and says what it sees. */
static void test_confined(struct store *st)
{
	static const char script[] = "#!/bin/sh\n"
				     "echo \"qemu-img: $(id -u) $$\" /* >&2; exit 1\n";
	auto_free char *path = strdup(getenv("PATH")), *with = NULL;
	unsigned uid = 0;
	int pid = 0;
	struct err e;

	OK(dir_make(at("bin"), 0755, &e) == 0 && chmod(at("bin"), 0755) == 0);
	OK(file_write_atomic(at("bin/qemu-img"), script, strlen(script), 0755, &e) == 0);
	OK(str_printf(&with, &e, "%s:%s", at("bin"), path) == 0);
	setenv("PATH", with, 1);
	make_disk(at("fake.raw"), 1 << 19);
	OK(import_file(st, "fake.raw", "fake") == ERR_BACKEND);
	setenv("PATH", path, 1);
	printf("# %s\n", said);
	OK(sscanf(strstr(said, "qemu-img: ") ? strstr(said, "qemu-img: ") : "", "qemu-img: %u %d",
		   &uid, &pid) == 2);
	OK(getuid() == 0 ? uid > CONFINE_IDS : uid == getuid());
	OK(pid == 1 && strstr(said, " /usr") && !strstr(said, " /home") && !strstr(said, " /sys"));
}

static void test_cancelled(struct store *st)
{
	struct image *img = NULL;
	char path[300];
	struct import_req req = {.path = path, .name = "late"};
	struct op op;
	struct err e;

	snprintf(path, sizeof(path), "%s/noise.raw", home);
	OK(op_init(&op, "test", 60, &e) == 0);
	op_cancel(&op);
	OK(store_import(st, &op, &req, &img, &e) < 0 && e.kind == ERR_CANCELLED);
	OK(store_is_clean());
	op_done(&op);
}

int main(int argc, char **argv)
{
	struct store *st;
	struct err e;

	home_begin(argc, argv);
	if (argc == 4 && strcmp(argv[1], "no-space") == 0)
		return no_space();
	if (access("/usr/bin/qemu-img", X_OK) < 0) {
		printf("1..0 # SKIP no qemu-img\n");
		home_end();
		return 0;
	}
	dir_make(at("recipes"), 0700, &e);
	make_disk(at("disk.raw"), 1 << 20);
	st = open_store();
	test_formats(st);
	test_details(st);
	test_ova(st);
	test_other_formats(st);
	test_compressed(st);
	test_hostile(st);
	test_confined(st);
	test_no_space();
	test_cancelled(st);
	store_close(st);
	home_end();
	return tap_done();
}
