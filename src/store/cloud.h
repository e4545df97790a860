/* cloud.h - the cloud images that moat knows by name, and what it adds to them. One table for the
 * local driver, which downloads them, and for Proxmox servers, which do that themselves. And the
 * releases of Proxmox VE that it can install. Pure. */
#pragma once

#include <stdbool.h>

#include "util/err.h"

enum cloud_sums { CLOUD_SHA256, CLOUD_SHA512 };

/* Who makes images, and how it proves that they are its own. */
struct cloud_vendor {
	const char *name, *host; /* of the images: "https://..." */
	enum cloud_sums kind;
	const char *sums;      /* name of the list of checksums, beside the image */
	const char *signature; /* of its signature, made apart; NULL: the vendor signs none */
	/* The fingerprint of the key. The key itself is share/recipes/keys/NAME.asc, or is got from
	 * key_host + key_path. */
	const char *fingerprint, *key_host, *key_path;
};

struct cloud_image {
	const char *name, *description;
	const struct cloud_vendor *vendor;
	const char *dir, *file; /* the path on the host */
	bool packed;            /* a tar file, which a Proxmox server cannot unpack */
};

/* NULL: there is none of that name. */
const struct cloud_image *cloud_find(const char *name);
/* The names, with commas between them. */
const char *cloud_names(void);
/* HOST + DIR + FILE. mirror: takes the place of HOST, with the same paths; "": none. */
int cloud_url(const char *mirror, const char *host, const char *dir, const char *file, char **ret,
	struct err *e);

/* What is installed: the guest agent, and what Inspect's own default container has, which is made
 * from buildpack-deps. NULL at the end. */
extern const char *const cloud_packages[];

/* Where the vendor of Proxmox VE says in its manual that they are. */
struct proxmox_release {
	const char *name, *description, *base, *suite;
	const char *key, *key_sum; /* its file, and the checksum that the manual gives of it */
};

/* NULL: there is none of that name. */
const struct proxmox_release *proxmox_find(const char *name);

extern const char proxmox_repository[]; /* of packages */
extern const char proxmox_keys[];       /* what the names of keys come after */
