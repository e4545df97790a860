/* dir.h - the directory of the templates, for templates.c. Locks are those of store/hold.h. Any
 * thread. */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "util/thread/op.h"
#include "wire/sha256.h"

struct template_root {
	char *dir; /* made when the first template is */
	uint64_t disk_max;
};

/* Keeps a template from being removed. 1: held; 0: there is none. */
int template_dir_hold(
	const struct template_root *r, const char *key, char **ret_dir, int *ret_fd, struct err *e);
/* Claims the making of a template. 1: claimed; 0: another thread or daemon makes it. */
int template_dir_claim(const struct template_root *r, const char *key, int *ret_fd, struct err *e);
int template_dir_draft(const struct template_root *r, char **ret_dir, int *ret_fd, struct err *e);
/* Writes the manifest, gives the draft its name, and removes the templates that were used least
 * lately until all fit. */
int template_dir_publish(const struct template_root *r, const char *draft, const char *key,
	const json_t *manifest, struct err *e);
/* Notes that a template was used just now. */
void template_dir_touch(const char *dir);
int template_dir_list(const struct template_root *r, json_t **ret, struct err *e);
int template_dir_resolve(const struct template_root *r, const char *prefix,
	char ret_key[SHA256_HEX + 1], struct err *e);
/* ERR_BUSY: it is in use, and stays. ERR_NOT_FOUND: there is none. */
int template_dir_remove(
	const struct template_root *r, const char *key, uint64_t *ret_freed, struct err *e);
/* Removes drafts whose makers are dead, and finishes removals that were interrupted. */
int template_dir_sweep(const struct template_root *r, struct err *e);

/* A template whose manifest cannot be read counts as having the format: it may just be going away.
 */
bool template_dir_has_format(const struct template_root *r, const char *key, int format);

int template_manifest_read(const char *dir, json_t **ret, struct err *e);
json_t *template_sum_json(uint64_t sum);
uint64_t template_sum_value(const json_t *j); /* 0: j is no checksum */
