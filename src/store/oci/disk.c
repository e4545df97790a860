#include "store/oci/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/follow.h"
#include "store/import/qemu-img.h"
#include "store/oci/describe.h"
#include "store/oci/tool.h"
#include "util/auto.h"
#include "util/str.h"
#include "util/strv.h"

#define DISK_NAME "disk.qcow2"
enum { DISK_FD = 119, LAYER_FD = 120, MESSAGE_MAX = 64 * 1024 };

/*
 * A new file system on a file that is all holes. The options are those of moat's own recipes
 * (share/recipes/lib-disk.sh): a kernel that finds inode tables not yet zeroed would fill each
 * overlay with them, and a small journal does not hold what growing takes.
 */
static int make_file_system(
	const struct op *op, const struct draft *d, const char *path, struct err *e)
{
	const char *argv[] = {"mke2fs", "-q", "-F", "-t", "ext4", "-L", "root", "-m", "0", "-J",
		"size=64", "-E",
		"root_owner=0:0,lazy_itable_init=0,lazy_journal_init=0,assume_storage_prezeroed=1",
		path, NULL};
	struct proc_req req = {.argv = argv, .guard = d->st->helper_path, .out_max = MESSAGE_MAX};
	auto_strv struct strv env = {0};

	if (oci_tool_env(d, &env, e) < 0)
		return -1;
	req.env = (const char *const *)env.v;
	return proc_run_ok(op, &req, e);
}

struct telling {
	const struct op *op;
};

static void on_line(void *arg, const char *line)
{
	const struct telling *t = arg;
	uint64_t done, total;
	const char *text;

	if (tool_output_progress(line, &done, &total, &text))
		op_progress(t->op, done, total, "unpacking layers");
}

/* The program beside moat-helper. */
static int disk_tool(const struct draft *d, char **ret, struct err *e)
{
	const char *slash = strrchr(d->st->helper_path, '/');

	return str_printf(ret, e, "%.*s/moat-disk", (int)(slash ? slash - d->st->helper_path : 0),
		d->st->helper_path);
}

static int fill(const struct op *op, const struct draft *d, int disk, const int *layers,
	unsigned n_layers, struct err *e)
{
	struct proc_fd fds[OCI_LAYERS_MAX + 1] = {{disk, DISK_FD}};
	struct telling telling = {op};
	struct follow_req req = {.on_line = on_line, .arg = &telling};
	char last[TOOL_OUTPUT_LINE_MAX + 1];
	auto_strv struct strv argv = {0};
	auto_free char *tool = NULL;
	int code;

	if (disk_tool(d, &tool, e) < 0)
		return -1;
	strv_add_all(&argv, tool, "layers", NULL);
	strv_addf(&argv, "/proc/self/fd/%d", DISK_FD);
	strv_addf(&argv, "%llu", (unsigned long long)d->st->container_disk);
	for (unsigned i = 0; i < n_layers; i++) {
		fds[i + 1] = (struct proc_fd){layers[i], LAYER_FD + (int)i};
		strv_addf(&argv, "/proc/self/fd/%d", LAYER_FD + (int)i);
	}
	if (strv_check(&argv, e) < 0)
		return -1;
	req.proc = (struct proc_req){.argv = (const char *const *)argv.v,
		.fds = fds,
		.n_fds = n_layers + 1,
		.guard = d->st->helper_path,
		.confine = "layers"};
	if (follow_run(op, &req, last, &code, e) < 0)
		return -1;
	if (code == 0)
		return 0;
	if (strstr(last, "disk is too small") || strstr(last, "more than the disk can"))
		return err_set(e, ERR_LIMIT,
			"%s: it has %llu GiB (container_disk_gb in the configuration)", last,
			(unsigned long long)(d->st->container_disk >> 30));
	return err_set(e, ERR_INVALID, "%s", *last ? last : "unpacking the layers failed");
}

/* qemu-img and moat-disk open their files once more, and where we are root they are other users. */
static int open_shared(const char *path, int flags, mode_t mode, int *ret, struct err *e)
{
	auto_fd int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0 || fchmod(fd, mode) < 0)
		return err_sys(e, errno, "%s", path);
	*ret = take_fd(&fd);
	return 0;
}

static int pack(const struct op *op, const struct draft *d, int raw, struct err *e)
{
	auto_free char *path = NULL;
	auto_fd int out = -1;

	if (str_printf(&path, e, "%s/" DISK_NAME, d->out) < 0 ||
		open_shared(path, O_RDWR | O_CREAT | O_EXCL, 0600, &out, e) < 0)
		return -1;
	return qemu_img_write(op,
		&(struct qemu_img_write){.helper_path = d->st->helper_path,
			.layers = {{raw, "raw"}},
			.n_layers = 1,
			.out_fd = out,
			.out_format = "qcow2",
			.text = "writing the disk"},
		e);
}

static int fill_and_pack(const struct op *op, struct draft *d, const char *path,
	char *const *layers, unsigned n_layers, struct err *e)
{
	int fds[OCI_LAYERS_MAX];
	auto_fd int raw = -1;
	unsigned opened = 0;
	int rc = -1;

	if (open_shared(path, O_RDWR, 0666, &raw, e) < 0)
		return -1;
	while (opened < n_layers &&
		open_shared(layers[opened], O_RDONLY, 0644, &fds[opened], e) == 0)
		opened++;
	if (opened == n_layers)
		rc = fill(op, d, raw, fds, n_layers, e);
	while (opened)
		close(fds[--opened]);
	return rc < 0 ? -1 : pack(op, d, raw, e);
}

int oci_disk(
	const struct op *op, struct draft *d, char *const *layers, unsigned n_layers, struct err *e)
{
	auto_free char *path = NULL;
	auto_fd int raw = -1;

	op_progress(op, 0, 0, "unpacking layers");
	if (str_printf(&path, e, "%s/disk.raw", d->work) < 0)
		return -1;
	raw = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (raw < 0 || ftruncate(raw, (off_t)d->st->container_disk) < 0)
		return err_sys(e, errno, "%s", path);
	if (make_file_system(op, d, path, e) < 0 ||
		fill_and_pack(op, d, path, layers, n_layers, e) < 0)
		return -1;
	return unlink(path) < 0 ? err_sys(e, errno, "%s", path) : 0;
}
