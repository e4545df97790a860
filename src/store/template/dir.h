/* template-dir.h - the directory of the templates, for templates.c. Locks as in store/hold.h. */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "util/op.h"
#include "util/sha256.h"

struct template_root {
	char *dir; /* made when the first template is */
	uint64_t disk_max;
};

/* 1: held, with its path; 0: there is none. */
int template_dir_hold(
	const struct template_root *r, const char *key, char **ret_dir, int *ret_fd, struct err *e);
/* 1: claimed; 0: somebody else has it. */
int template_dir_claim(const struct template_root *r, const char *key, int *ret_fd, struct err *e);
int template_dir_draft(const struct template_root *r, char **ret_dir, int *ret_fd, struct err *e);
/* Writes the manifest, renames the draft, and removes the least used until all fit. */
int template_dir_publish(const struct template_root *r, const char *draft, const char *key,
	const json_t *manifest, struct err *e);
/* It was used just now. */
void template_dir_touch(const char *dir);
int template_dir_list(const struct template_root *r, json_t **ret, struct err *e);
int template_dir_resolve(const struct template_root *r, const char *prefix,
	char ret_key[SHA256_HEX + 1], struct err *e);
/* Alone, or not at all: ERR_BUSY. Missing is ERR_NOT_FOUND. */
int template_dir_remove(
	const struct template_root *r, const char *key, uint64_t *ret_freed, struct err *e);
/* Drafts whose makers are dead, and removals that were interrupted. */
int template_dir_sweep(const struct template_root *r, struct err *e);

int template_manifest_read(const char *dir, json_t **ret, struct err *e);
json_t *template_sum_json(uint64_t sum);
uint64_t template_sum_value(const json_t *j); /* 0 if it is not one */
