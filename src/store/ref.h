/* ref.h - the names of container images in registries. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "util/err.h"

enum { OCI_REF_MAX = 230 }; /* it becomes the name of a file */

/* A reference in full: "docker.io/library/debian:12", or "...debian@sha256:DIGEST". */
struct oci_ref {
	char text[OCI_REF_MAX + 1];
	size_t registry_len; /* of "docker.io" */
	size_t name_len;     /* of "docker.io/library/debian" */
	bool pinned;         /* it ends with a digest, not with a tag */
};

/*
 * Reads what people write: "debian", "debian:12", "ghcr.io/a/b@sha256:...", each with "docker://"
 * before it or not. As with Docker, the registry is docker.io unless the first part looks like a
 * host, a name of one part there is in "library", and the tag is "latest". A digest makes the tag
 * beside it meaningless.
 */
int oci_ref_read(const char *text, struct oci_ref *ret, struct err *e);
/* The 64 hex digits at the end of a reference that is pinned. */
const char *oci_ref_digest(const struct oci_ref *ref);
/* Whether somebody who may mean an image of moat's, a URL or a container image means the last: it
 * begins with "docker://", or is no URL and has a '/', ':' or '@'. */
bool oci_ref_is_meant(const char *text);
/* Whether the registry is this machine. As with Docker, it may do without TLS. */
bool oci_ref_is_local(const struct oci_ref *ref);
