/* qemu-img.h - runs qemu-img on files that are not trusted: it is told the format, gets the open
 * files and nothing else, and is confined like a QEMU, with limited memory. Any thread. */
#pragma once

#include <stdbool.h>

#include "util/buf.h"
#include "util/thread/op.h"

struct qemu_img {
	const char *helper_path; /* moat-helper, for the guard */
	int fd; /* the image, which probe_disk has accepted; if we are root, all may read it */
	const char *format; /* the format that probe_disk found */
};

/* Checks the image a second time, by `qemu-img info`: not encrypted, of a plausible size, needs no
 * other file. */
int qemu_img_inspect(const struct op *op, const struct qemu_img *img, struct err *e);
/* Checks that the image is complete, and converts it to a new qcow2 file at path, in a directory
 * that is closed to others. */
int qemu_img_convert(
	const struct op *op, const struct qemu_img *img, const char *path, struct err *e);

/* A disk of several files becomes one. */
enum { QEMU_IMG_LAYERS = 3 };
struct qemu_img_write {
	const char *helper_path;
	/* The uppermost first, each above the next. If we are root, all may read them. */
	struct {
		int fd;
		const char *format;
	} layers[QEMU_IMG_LAYERS];
	unsigned n_layers;
	int out_fd;                           /* an empty file that nobody else can open */
	const char *out_format, *out_options; /* options may be NULL */
	bool compress;
	const char *text; /* of the progress */
};
int qemu_img_write(const struct op *op, const struct qemu_img_write *w, struct err *e);

/* Pure: checks the JSON of `qemu-img info`. file: the name that qemu-img was given. */
int qemu_img_judge(struct bytes info, const char *file, struct err *e);
