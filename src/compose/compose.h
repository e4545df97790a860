/*
 * compose.h - a compose file, or a Dockerfile alone, as a sandbox spec.
 *
 * Pure but for the reading of files, which is the caller's. How it works: load.c reads the file and
 * those that it includes, puts values in for variables and makes paths absolute. service.c turns
 * each service into a VM of the spec, with the help of a file for each of its parts; networks.c
 * makes the vnets. keys.c has the list of all members: those that it has no line for are refused.
 */
#pragma once

#include <stdbool.h>

#include <jansson.h>

#include "util/err.h"

struct compose_files {
	/* The text of a file, which the translator frees. ERR_NOT_FOUND: there is none. */
	int (*read)(void *arg, const char *path, char **ret, size_t *ret_len, struct err *e);
	void *arg;
};

struct compose_req {
	const char *
		path; /* absolute: of a compose file or Dockerfile; with config, how it is called */
	json_t *config;        /* a compose file as JSON; NULL: that at path */
	const char *directory; /* absolute: where its relative paths begin */
	json_t *env;           /* object of texts: values for its variables */
	bool closed;           /* also networks that are not internal are closed */
	bool prebuilt;         /* nothing is built: services with both have their image */
	struct compose_files files;
};

/*
 * {"spec": SPEC, "accepted": [{"file", "place", "why"}], "networks": {NAME: "open"|"deny"|"allow"},
 * "default": NAME, "services": {VM: NAME}}
 */
int compose_translate(const struct compose_req *req, json_t **ret, struct err *e);

/* By the name of the file: Dockerfile, Dockerfile.x, x.Dockerfile. */
bool compose_is_dockerfile(const char *path);
/* compose.yaml, docker-compose.yml, x-compose.yaml, x.compose.yaml. */
bool compose_is_compose_file(const char *path);
