/* load.h - a compose file and those that it includes, read and put together. */
#pragma once

#include "compose/compose.h"

/* Everything that was read. Members named after members of the file are objects by name. */
struct model {
	const struct compose_req *req;
	json_t *services;           /* {"file": its file, "body": the service}; paths are absolute,
				       `environment`	   and `build` are objects */
	json_t *networks, *volumes; /* {"file", "body"} */
	json_t *egress;             /* x-inspect_k8s_sandbox; NULL: none */
	json_t *accepted;           /* list of {"file", "place", "why"} */
	json_t *missing;            /* object: variables without a value */
	json_t *used;               /* object: the networks that services are in, in that order */
	unsigned macs;              /* how many MAC addresses were chosen */
	size_t made;                /* bytes that variables became */
	unsigned files;
};

int model_load(const struct compose_req *req, struct model *ret, struct err *e);
void model_free(struct model *m);
#define auto_model __attribute__((cleanup(model_free)))

/* Tells the user once that something has no meaning here, and why. */
int model_accept(
	struct model *m, const char *file, const char *place, const char *why, struct err *e);
/* Adds a member to an object; value may be NULL, which means that memory ran out. */
int json_put(json_t *object, const char *name, json_t *value, struct err *e);
