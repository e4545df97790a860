/* qemu_img.h - runs qemu-img on files that someone else made: told the format, given the open file
 * and nothing else, with limits on memory and below the guard. */
#pragma once

#include "util/buf.h"
#include "util/op.h"

struct qemu_img {
	const char *helper_path; /* for the guard */
	int fd;                  /* the image, which probe_disk has let pass */
	const char *format;      /* what it said */
};

/* The second look, by qemu-img's own eyes: not encrypted, not absurd, needs no other file. */
int qemu_img_inspect(const struct op *op, const struct qemu_img *img, struct err *e);
/* Checks that nothing of it is missing, and writes a qcow2 file to path. */
int qemu_img_convert(
	const struct op *op, const struct qemu_img *img, const char *path, struct err *e);

/* Pure: judges the JSON of `qemu-img info`; file: the name that it was called with. */
int qemu_img_judge(struct bytes info, const char *file, struct err *e);
