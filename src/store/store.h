/*
 * store.h - the image store: VM images, named by a digest of their content, in one data directory
 * that several daemons may share. Thread-safe: a struct store does not change after store_open, and
 * file locks exclude threads and processes alike.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/err.h"
#include "util/thread/op.h"

struct store;
struct image_use;

struct store_config {
	const char *data_dir;    /* images live in DATA_DIR/images */
	const char *cache_dir;   /* for downloads of recipes; may be deleted at any time */
	const char *recipe_dir;  /* has NAME.sh, the recipe for image NAME. One in DATA_DIR/recipes
				    replaces it */
	const char *helper_path; /* moat-helper, whose guard runs above children */
	const char *mirror; /* takes the place of the hosts of cloud images, and of docker.io; NULL
			       or "": none */
	uint64_t download_max;    /* bytes that a download may have; 0: any */
	const char *auth_file;    /* logins for registries; NULL or "": where the tools look */
	uint64_t container_disk;  /* bytes of a container image's disk; 0: 20 GiB */
	uint64_t container_cache; /* bytes of what is kept for later container images */
	const char *proxmox_repository; /* of packages; NULL or "": the vendor's */
};

enum knowledge { UNKNOWN, KNOWN_YES, KNOWN_NO };

/* A copy that belongs to the caller. Members that may be absent are NULL; all others are set. */
struct image {
	char *name;                      /* "" for an image without a name */
	char *digest;                    /* SHA-256 in hex of the content, without name and age */
	char *description;               /* may be "" */
	char *dir;                       /* absolute path, as those of the files below */
	char *kernel, *initrd, *cmdline; /* kernel NULL: boots from its disk */
	char *kernel_efi;                /* bzImage for UEFI firmware; NULL: use kernel */
	char *disk, *disk_format; /* disk NULL: it runs from memory. disk_format: "qcow2", "raw" */
	char *user;               /* default user of commands; NULL: root */
	char *hostname;           /* what VMs are called inside; NULL: as in the sandbox */
	char *password; /* root's in it; NULL but from the build that has just chosen it */
	char *os_type;  /* "l26", "win11", "other", ... */
	char *arch;     /* "x86_64" */
	char *firmware; /* "any", "bios", "uefi" */
	enum knowledge cloud_init; /* whether cloud-init is in it */
	bool used;                 /* the disk is that of a VM that ran: it has an identity */
	json_t *container;         /* see manifest.h; NULL: it was no container image */
	uint64_t min_ram_mb;       /* 0: unknown */
	uint64_t size;             /* bytes on this host's disk */
	int64_t created;           /* Unix time */
};
void image_free(struct image *img); /* NULL is fine */
static inline void auto_imagep(struct image **img)
{
	image_free(*img);
}
#define auto_image __attribute__((cleanup(auto_imagep)))

struct image_list {
	struct image **items; /* sorted by name; an image with two names is listed twice */
	size_t n;
};
void image_list_free(struct image_list *list);
#define auto_image_list __attribute__((cleanup(image_list_free)))

/* Makes the directories and removes what killed builds have left. */
int store_open(const struct store_config *cfg, struct store **ret, struct err *e);
void store_close(struct store *st); /* NULL is fine; release every image_use before */

/*
 * Finds an image. ref is a name, or at least 4 digits of a digest (with or without "sha256:" before
 * them); names are tried first. ERR_NOT_FOUND says which command would help; ERR_INVALID: several
 * digests begin like that.
 */
int store_find(struct store *st, const char *ref, struct image **ret, struct err *e);
/* Lists the images that can be used. problems->report gets the others, with the reason; problems
 * NULL: such an image is an error. */
struct image_problems {
	void (*report)(void *arg, const char *name, const struct err *why);
	void *arg;
};
int store_list(struct store *st, const struct image_problems *problems, struct image_list *ret,
	struct err *e);

/* Finds an image and keeps any process from removing it, until store_unuse or the end of this
 * process. Call it before QEMU gets the path of one of the image's files. */
int store_use(struct store *st, const char *ref, struct image **ret, struct image_use **ret_use,
	struct err *e);
void store_unuse(struct image_use *use); /* NULL is fine */
static inline void auto_image_usep(struct image_use **use)
{
	store_unuse(*use);
}
#define auto_image_use __attribute__((cleanup(auto_image_usep)))

/*
 * Removes a name, and with its last name the image; given a digest, removes the image and all its
 * names. ERR_BUSY while the image is in use. *ret_freed: bytes; 0 if the image keeps other names.
 */
int store_remove(struct store *st, const char *ref, uint64_t *ret_freed, struct err *e);

/*
 * Finds the image of that name, or builds it by its recipe if it does not exist or rebuild is set.
 * Of several builds of one name, in threads and processes, only one runs: the others wait and share
 * its result. A build that fails or is cancelled leaves nothing but the log,
 * DATA_DIR/images/log/NAME.log. See make/build.c.
 */
int store_build(struct store *st, const struct op *op, const char *name, bool rebuild,
	struct image **ret, struct err *e);

enum { CHANGE_DISK_GB_MAX = 2000 };
/* What is changed in an image, in this order. */
struct change_req {
	const char *base;            /* an image, by name or digest; one that is missing is built */
	const char *name;            /* of the new image */
	const char *const *copy;     /* pairs: absolute path here, path in the image */
	const char *const *packages; /* of Debian's kind */
	const char *const *scripts;  /* absolute paths of programs that run in the image */
	unsigned disk_gb;            /* the least size of the disk; 0: as it is, or as it must be */
	bool rebuild;                /* even if nothing has changed */
};
/*
 * Makes an image out of another whose disk has an ext4 root, without booting it. If the same was
 * made before, of the same base, that image gets the name. Fails and is cancelled like store_build.
 * See make/change.c.
 */
int store_change(struct store *st, const struct op *op, const struct change_req *req,
	struct image **ret, struct err *e);

struct import_req {
	const char *path;    /* absolute: qcow2, raw, vmdk in one file, vdi, vhdx, OVA; disks may be
				compressed */
	const char *name;    /* replaces the image of that name; NULL: from the file's name */
	const char *user;    /* NULL: root */
	const char *os_type; /* NULL: "l26" */
	const char *firmware; /* "any", "bios", "uefi"; NULL: "any" */
};
/* Imports a disk image. The file is not trusted: it cannot make us read other files. See
 * import/import.c. */
int store_import(struct store *st, const struct op *op, const struct import_req *req,
	struct image **ret, struct err *e);

/* Gets an image that moat knows on the net (cloud.h), under another name if name is not
 * NULL. If the vendor has nothing new since it was got, or made, it is the same. rebuild: make it
 * even then. See make/pull.c. */
int store_pull(struct store *st, const struct op *op, const char *image, const char *name,
	bool rebuild, struct image **ret, struct err *e);
/* Downloads a disk image and imports it. sha256: what its checksum must be; NULL: unknown. as: for
 * the import; its path is not used. */
int store_pull_url(struct store *st, const struct op *op, const char *url, const char *sha256,
	const struct import_req *as, struct image **ret, struct err *e);

/* Whether somebody who may mean an image of moat's, a URL or a container image means the last
 * (ref.h). */
bool store_oci_is_meant(const char *text);

struct oci_pull_req {
	const char *ref;  /* of a container image in a registry (ref.h) */
	const char *name; /* of the image; NULL: the reference in full */
	bool missing;     /* if the name is there, ask no registry whether it has a newer one */
	bool rebuild;     /* make it again, even of what is there */
};
/*
 * Makes an image of a container image. One that was made before of the same manifest is the same
 * image, under another name. Fails, is cancelled and is shared like store_build. See oci/pull.c.
 */
int store_oci_pull(struct store *st, const struct op *op, const struct oci_pull_req *req,
	struct image **ret, struct err *e);

struct oci_build_req {
	const char *context; /* absolute: the directory whose files COPY takes */
	const char *file;    /* the Dockerfile, absolute or in the context; NULL: "Dockerfile" */
	const char *target;  /* a stage; NULL: the last */
	const json_t *args;  /* object of texts; NULL: none */
	const char *name;    /* of the image; NULL: made of all the above */
	bool rebuild;        /* even if nothing has changed */
};
/* Builds a container image, and makes an image of it. If the same files were built before in the
 * same way, it is that image. Fails, is cancelled and is shared like store_build. See oci/build.c.
 */
int store_oci_build(struct store *st, const struct op *op, const struct oci_build_req *req,
	struct image **ret, struct err *e);
/* Makes an image of a container image in a file or directory: of `docker save`, or of the OCI's
 * layout. req->path: what store_oci_found has accepted. See oci/import.c. */
int store_oci_import(struct store *st, const struct op *op, const struct import_req *req,
	struct image **ret, struct err *e);
/* Whether a file or directory is, by its look, a container image. */
bool store_oci_found(const char *path);

/* Removes what killed builds have left, and images without a name that are unused. report() gets a
 * line for each; it may be NULL. */
int store_gc(struct store *st, const struct op *op, void (*report)(void *arg, const char *text),
	void *arg, struct err *e);
/* Removes what is kept of container images for later ones: what was not used for long, or all of
 * it. report as for store_gc. */
int store_drop_kept(struct store *st, bool all, void (*report)(void *arg, const char *text),
	void *arg, struct err *e);
