#include "store/import/qemu-img.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/follow.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"

/* The child opens the same file that we examined, whatever is at its path by now. */
#define IMAGE_FD    120
#define IMAGE_PATH  "/proc/self/fd/120"
#define RESULT_FD   119
#define RESULT_PATH "/proc/self/fd/119"
#define LAYER_FD    IMAGE_FD /* and those after it */

enum { INFO_TIMEOUT_S = 60, INFO_SIZE_MAX = 1024 * 1024 };
static const uint64_t virtual_size_max = (uint64_t)1 << 44; /* 16 TiB */

int qemu_img_judge(struct bytes info, const char *file, struct err *e)
{
	auto_json json_t *j = NULL;
	json_t *data, *extents, *extent;
	size_t i;

	if (json_parse_object(info, &j, e) < 0)
		return err_wrap(e, "qemu-img info");
	if (json_object_get(j, "backing-filename") || json_object_get(j, "full-backing-filename"))
		return err_set(e, ERR_INVALID, "it needs another file (a backing file)");
	if (json_is_true(json_object_get(j, "encrypted")))
		return err_set(e, ERR_UNSUPPORTED, "it is encrypted");
	if (!json_is_integer(json_object_get(j, "virtual-size")))
		return err_set(e, ERR_BACKEND, "qemu-img info does not say its size");
	if ((uint64_t)json_integer_value(json_object_get(j, "virtual-size")) > virtual_size_max)
		return err_set(e, ERR_INVALID, "a disk of more than 16 TiB");
	data = json_object_get(json_object_get(j, "format-specific"), "data");
	if (json_object_get(data, "data-file"))
		return err_set(e, ERR_INVALID, "its data is in another file");
	extents = json_object_get(data, "extents");
	json_array_foreach(extents, i, extent) {
		const char *name = json_string_value(json_object_get(extent, "filename"));

		if (!name || strcmp(name, file) != 0)
			return err_set(e, ERR_INVALID, "its data is in other files");
	}
	return 0;
}

static struct proc_req request(const struct qemu_img *img, const char *const *argv,
	const struct proc_fd *fds, unsigned n_fds)
{
	return (struct proc_req){
		.argv = argv,
		.fds = fds,
		.n_fds = n_fds,
		.guard = img->helper_path,
		.confine = "image",
		.out_max = INFO_SIZE_MAX,
	};
}

/* Takes qemu-img's message without its beginning, as in "qemu-img: Could not open
 * '/proc/self/fd/120': what a user wants to know". */
static int fail_with(const char *last, int code, struct err *e)
{
	static const char program[] = "qemu-img: ", opening[] = "Could not open '";
	const char *end;

	if (str_starts(last, program))
		last += sizeof(program) - 1;
	if (str_starts(last, opening) && (end = strstr(last, "': ")))
		last = end + strlen("': ");
	if (strstr(last, "No space left on device"))
		return err_sys(e, ENOSPC, "writing the disk");
	err_set(e, ERR_BACKEND, "qemu-img: %s", *last ? last : "failed without a word");
	e->sys = code;
	return -1;
}

int qemu_img_inspect(const struct op *op, const struct qemu_img *img, struct err *e)
{
	const char *argv[] = {
		"qemu-img", "info", "--output=json", "-f", img->format, IMAGE_PATH, NULL};
	struct proc_fd fd = {.fd = img->fd, .as = IMAGE_FD};
	struct proc_req req = request(img, argv, &fd, 1);
	auto_proc_result struct proc_result res = {0};
	struct op part = op_within(op, INFO_TIMEOUT_S);
	struct tool_output complaints = {0};
	char last[TOOL_OUTPUT_LINE_MAX + 1];
	const char *line;

	if (proc_run(&part, &req, &res, e) < 0)
		return -1;
	if (res.exit_code == 0)
		return qemu_img_judge(buf_bytes(&res.out), IMAGE_PATH, e);
	tool_output_add(&complaints, (char *)buf_data(&res.err), res.err.len, NULL, NULL);
	line = tool_output_end(&complaints, NULL, NULL);
	str_escape(line, strlen(line), last, sizeof(last));
	return fail_with(last, res.exit_code, e);
}

/* QEMU reads missing data at the end of a file as zeros, so an incomplete download would become a
 * disk with holes. `qemu-img check` notices that. */
static int check_whole(const struct op *op, const struct qemu_img *img, struct err *e)
{
	enum { CHECK_OK = 0, CHECK_DAMAGED = 2, CHECK_LEAKS = 3, CHECK_UNSUPPORTED = 63 };
	const char *argv[] = {"qemu-img", "check", "-q", "-f", img->format, IMAGE_PATH, NULL};
	struct proc_fd fd = {.fd = img->fd, .as = IMAGE_FD};
	struct follow_req req = {.proc = request(img, argv, &fd, 1)};
	char last[TOOL_OUTPUT_LINE_MAX + 1];
	int code;

	op_progress(op, 0, 0, "checking the disk");
	if (follow_run(op, &req, last, &code, e) < 0)
		return err_wrap(e, "checking the disk");
	switch (code) {
	case CHECK_OK:
	case CHECK_LEAKS: /* leaks waste space and lose nothing */
	case CHECK_UNSUPPORTED:
		return 0;
	case CHECK_DAMAGED:
		return err_set(e, ERR_INVALID, "it is damaged, or cut short; see: qemu-img check");
	default:
		return fail_with(last, code, e);
	}
}

struct telling {
	const struct op *op;
	const char *text;
};

static void on_line(void *arg, const char *line)
{
	const struct telling *t = arg;
	unsigned hundredths;

	if (tool_output_percent(line, &hundredths))
		op_progress(t->op, hundredths, 10000, "%s", t->text);
}

/* Describes the layers as qemu-img takes them: whatever a header says of another file, "backing"
 * takes its place. */
static int describe(const struct qemu_img_write *w, struct buf *ret, struct err *e)
{
	static const char *const below[QEMU_IMG_LAYERS] = {"", "backing.", "backing.backing."};

	for (unsigned i = 0; i < w->n_layers; i++)
		buf_putf(ret, "%s%sdriver=%s,%sfile.driver=file,%sfile.filename=/proc/self/fd/%d",
			i ? "," : "", below[i], w->layers[i].format, below[i], below[i],
			LAYER_FD + (int)i);
	return buf_check(ret, e);
}

int qemu_img_write(const struct op *op, const struct qemu_img_write *w, struct err *e)
{
	struct proc_fd fds[QEMU_IMG_LAYERS + 1] = {{w->out_fd, RESULT_FD}};
	struct telling telling = {op, w->text};
	struct qemu_img img = {.helper_path = w->helper_path};
	struct follow_req req = {.on_line = on_line, .arg = &telling};
	auto_strv struct strv argv = {0};
	auto_buf struct buf layers = {0};
	auto_free char *from = NULL;
	char last[TOOL_OUTPUT_LINE_MAX + 1];
	struct stat st;
	int code;

	if (describe(w, &layers, e) < 0)
		return -1;
	from = buf_take_str(&layers);
	if (!from)
		return err_oom(e);
	strv_add_all(&argv, "qemu-img", "convert", "-p", "--image-opts", "-O", w->out_format, NULL);
	if (w->compress)
		strv_add(&argv, "-c");
	if (w->out_options)
		strv_add_all(&argv, "-o", w->out_options, NULL);
	strv_add_all(&argv, from, RESULT_PATH, NULL);
	if (strv_check(&argv, e) < 0)
		return -1;
	for (unsigned i = 0; i < w->n_layers; i++)
		fds[i + 1] = (struct proc_fd){w->layers[i].fd, LAYER_FD + (int)i};
	req.proc = request(&img, (const char *const *)argv.v, fds, w->n_layers + 1);
	/* qemu-img opens the result once more, and where we are root it is another user. */
	if (fstat(w->out_fd, &st) < 0 || fchmod(w->out_fd, 0666) < 0)
		return err_sys(e, errno, "the new disk");
	if (follow_run(op, &req, last, &code, e) < 0)
		return err_wrap(e, "%s", w->text);
	if (code)
		return fail_with(last, code, e);
	return fchmod(w->out_fd, st.st_mode & 07777) < 0 ? err_sys(e, errno, "the new disk") : 0;
}

int qemu_img_convert(
	const struct op *op, const struct qemu_img *img, const char *path, struct err *e)
{
	auto_fd int result = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (result < 0)
		return err_sys(e, errno, "%s", path);
	if (check_whole(op, img, e) < 0)
		return -1;
	return qemu_img_write(op,
		&(struct qemu_img_write){.helper_path = img->helper_path,
			.layers = {{img->fd, img->format}},
			.n_layers = 1,
			.out_fd = result,
			.out_format = "qcow2",
			.text = "converting the disk"},
		e);
}
