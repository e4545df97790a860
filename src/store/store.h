/*
 * store.h - the image store: content-addressed VM images in one data directory, which several
 * daemons may share. Thread-safe: a struct store does not change after store_open, and all that
 * must be exclusive is made so by file locks, between threads as between processes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/err.h"
#include "util/op.h"

struct store;
struct image_use;

struct store_config {
	const char *data_dir;    /* images live in DATA_DIR/images */
	const char *cache_dir;   /* for what recipes download; may be deleted at any time */
	const char *recipe_dir;  /* NAME.sh: how to build the image NAME. DATA_DIR/recipes wins */
	const char *helper_path; /* moat-helper: children run below its guard */
};

/* Plain data, the caller's own copy. What may be absent is NULL; all else is set. */
struct image {
	char *name;        /* "" for an image that only has a digest */
	char *digest;      /* sha256 in hex, of what is in it; not of its name or age */
	char *description; /* may be "" */
	char *dir;         /* absolute, as are the files below */
	char *kernel, *initrd, *cmdline; /* NULL: boots from its disk */
	char *kernel_efi;                /* bzImage for UEFI firmware; NULL: none besides kernel */
	char *disk, *disk_format;        /* NULL: runs from memory. disk_format: "qcow2", "raw" */
	char *user;                      /* default user of commands; NULL: root */
	char *os_type;                   /* "l26", "win11", "other", ... */
	char *arch;                      /* "x86_64" */
	char *firmware;                  /* "any", "bios", "uefi" */
	uint64_t min_ram_mb;             /* 0: not known */
	uint64_t size;                   /* bytes on this host's disk */
	int64_t created;                 /* Unix time */
};
void image_free(struct image *img); /* NULL is fine */
static inline void auto_imagep(struct image **img)
{
	image_free(*img);
}
#define auto_image __attribute__((cleanup(auto_imagep)))

struct image_list {
	struct image **items; /* by name; an image with two names is there twice */
	size_t n;
};
void image_list_free(struct image_list *list);
#define auto_image_list __attribute__((cleanup(image_list_free)))

/* Makes the directories and removes what builds that were killed have left. */
int store_open(const struct store_config *cfg, struct store **ret, struct err *e);
void store_close(struct store *st); /* NULL is fine; every image_use is gone before */

/*
 * ref is a name, or at least 4 digits of a digest (with or without "sha256:" before it); a name
 * wins. ERR_NOT_FOUND says which command would help; ERR_INVALID: several digests begin so.
 */
int store_find(struct store *st, const char *ref, struct image **ret, struct err *e);
/* Those that can be used. tell hears of the others, and why they cannot; NULL: one is an error. */
struct image_losses {
	void (*tell)(void *arg, const char *name, const struct err *why);
	void *arg;
};
int store_list(
	struct store *st, const struct image_losses *losses, struct image_list *ret, struct err *e);

/*
 * Finds an image and keeps it from being removed, by any process, until store_unuse or the end of
 * this process. Take it before the path of a file of the image is given to QEMU.
 */
int store_use(struct store *st, const char *ref, struct image **ret, struct image_use **ret_use,
	struct err *e);
void store_unuse(struct image_use *use); /* NULL is fine */
static inline void auto_image_usep(struct image_use **use)
{
	store_unuse(*use);
}
#define auto_image_use __attribute__((cleanup(auto_image_usep)))

/*
 * Removes a name, and the image with its last name; given a digest, the image and all its names.
 * ERR_BUSY while the image is in use. *ret_freed: bytes, 0 if the image has other names.
 */
int store_remove(struct store *st, const char *ref, uint64_t *ret_freed, struct err *e);

/*
 * The image of that name, built by its recipe if it does not exist or rebuild is set. Builds of one
 * name, in whatever threads and processes, are done once: the others wait and share the result.
 * Cancelled, late or failed: nothing is left but the log, DATA_DIR/images/log/NAME.log.
 */
int store_build(struct store *st, const struct op *op, const char *name, bool rebuild,
	struct image **ret, struct err *e);

struct import_req {
	const char *path;     /* absolute: qcow2, raw, vmdk in one file, or OVA */
	const char *name;     /* replaces the image of that name; NULL: from the file's name */
	const char *user;     /* NULL: root */
	const char *os_type;  /* NULL: "l26" */
	const char *firmware; /* "any", "bios", "uefi"; NULL: "any" */
};
/* The file is someone else's work: it cannot make us read any other file. */
int store_import(struct store *st, const struct op *op, const struct import_req *req,
	struct image **ret, struct err *e);

/* Removes leftovers of killed builds and images without a name that nobody uses; said() hears one
 * line for each. said may be NULL. */
int store_gc(struct store *st, const struct op *op, void (*said)(void *arg, const char *text),
	void *arg, struct err *e);
