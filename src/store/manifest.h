/* manifest.h - manifest.json, the description of an image. Recipes write it; the store checks it,
 * adds the digests of the files and a digest over the whole, and keeps the result. Pure. */
#pragma once

#include <jansson.h>

#include "wire/sha256.h"
#include "store/store.h"
#include "util/buf.h"

enum { MANIFEST_SIZE_MAX = 1024 * 1024, MANIFEST_FILES_MAX = 4 };

/*
 * Checks every member. The result has only known members, with defaults filled in. Of an image that
 * was a container image "container" has all of these:
 *
 *   ref, digest     where it is from, and the digest of its manifest there
 *   entrypoint, cmd lists of texts, or null
 *   env             list of "NAME=VALUE"
 *   working_dir, user, stop_signal   texts, or null
 *   healthcheck     null, or {test: [...], interval, timeout, start_period (seconds), retries}
 *   exposed_ports, volumes           lists of texts
 */
int manifest_parse(struct bytes in, json_t **ret, struct err *e);
/* The names of the image's files, borrowed from m. */
unsigned manifest_files(const json_t *m, const char *ret[MANIFEST_FILES_MAX]);
/* The digest over all members but "digest", "created" and "size". */
int manifest_digest(const json_t *m, char ret_hex[SHA256_HEX + 1], struct err *e);
int manifest_to_image(
	const json_t *m, const char *dir, const char *name, struct image **ret, struct err *e);

/* Check one value, which may be a manifest's or a client's. NULL is an error as a name or a kind of
 * system; as firmware or user it means that none is given. */
int check_image_name(const char *name, struct err *e);
int check_os_type(const char *os_type, struct err *e);
int check_firmware(const char *firmware, struct err *e);
int check_user(const char *user, struct err *e);
