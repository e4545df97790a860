/*
 * manifest.h - manifest.json: what an image is. Recipes write it, the store checks it, adds the
 * digests of the files and its own digest over the whole, and keeps that. Pure.
 */
#pragma once

#include <jansson.h>

#include "util/sha256.h"
#include "store/store.h"
#include "util/buf.h"

enum { MANIFEST_SIZE_MAX = 64 * 1024, MANIFEST_FILES_MAX = 4 };

/* Checks every member; the result has only members that we know, with defaults filled in. */
int manifest_parse(struct bytes in, json_t **ret, struct err *e);
/* The names of its files; they live as long as m. */
unsigned manifest_files(const json_t *m, const char *ret[MANIFEST_FILES_MAX]);
/* Over all members but "digest", "created" and "size". */
int manifest_digest(const json_t *m, char ret_hex[SHA256_HEX + 1], struct err *e);
int manifest_to_image(
	const json_t *m, const char *dir, const char *name, struct image **ret, struct err *e);

/* Rules for values that also come from elsewhere. NULL is an error for the first two only. */
int check_image_name(const char *name, struct err *e);
int check_os_type(const char *os_type, struct err *e);
int check_firmware(const char *firmware, struct err *e);
int check_user(const char *user, struct err *e);
