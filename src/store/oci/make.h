/* make.h - a container image becomes an image of the store. Any thread. */
#pragma once

#include "store/draft.h"
#include "store/oci/describe.h"

/* The manifest of the image to be, as far as the digest of the container image's manifest tells:
 * enough for draft_reuse. */
int oci_make_manifest(const struct store *st, const char *hex, json_t **ret, struct err *e);

struct oci_make {
	json_t *m; /* of oci_make_manifest */
	const char *ref, *hex, *name;
	struct bytes config;
	char *const *layers; /* files, the lowest first */
	unsigned n_layers;
};
/* Makes the image, whose name the caller has claimed. */
int oci_make(struct store *st, const struct op *op, struct draft *d, const struct oci_make *make,
	struct image **ret, struct err *e);

/*
 * Makes the image of what a tool has written into a directory: manifest.json, and the configuration
 * and layers under the 64 digits of their checksums. The caller has claimed the name.
 */
struct oci_make_dir {
	const char *dir, *ref, *name;
	bool rebuild;
	const char *source; /* of the image; NULL: its manifest's */
};
int oci_make_from_dir(struct store *st, const struct op *op, struct draft *d,
	const struct oci_make_dir *from, struct image **ret, struct err *e);
