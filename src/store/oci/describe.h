/* describe.h - reads what registries and archives say of a container image: its manifest, which
 * names the layers, and its configuration, which says what runs in it. Pure; all of it may be
 * anybody's bytes. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "util/buf.h"
#include "wire/sha256.h"

enum { OCI_TEXT_MAX = 4 << 20, OCI_LAYERS_MAX = 128 };

struct oci_blob {
	char hex[SHA256_HEX + 1]; /* of its SHA-256 */
	uint64_t size;
};

/* A manifest: of an image, or of several for machines of different kinds. */
struct oci_manifest {
	bool several; /* then `image` is the digest of the manifest for us */
	char image[SHA256_HEX + 1];
	struct oci_blob config;
	struct oci_blob layers[OCI_LAYERS_MAX]; /* the lowest first */
	unsigned n_layers;
	uint64_t size; /* bytes of all layers */
};
int oci_manifest_read(struct bytes text, struct oci_manifest *ret, struct err *e);

/* Turns a configuration into the member "container" of an image's manifest (store/manifest.h).
 * hex: of the manifest's digest. What is for other machines is refused. */
int oci_config_read(
	struct bytes text, const char *ref, const char *hex, json_t **ret, struct err *e);
