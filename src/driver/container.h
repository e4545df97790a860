/* container.h - how the service of a container image runs: what the image says, and what the spec
 * says otherwise. Pure. */
#pragma once

#include "spec/spec.h"
#include "util/buf.h"
#include "util/strv.h"

struct container {
	struct strv argv;    /* empty: there is nothing to run */
	struct strv env;     /* "NAME=value", of the service and of commands */
	struct strv volumes; /* directories that the image wants, which it may not have */
	char *cwd, *user;    /* of both, as the runner takes them */
	char *hostname;
	int stop_signal;
	struct healthcheck_spec *healthcheck; /* NULL: none */
};

/* image: the member "container" of an image's manifest. */
int container_make(
	const json_t *image, const struct vm_spec *vm, struct container **ret, struct err *e);
void container_free(struct container *c); /* NULL is fine */

/* What init is told (wire/service.h). addresses: how many NICs get one by DHCP; gateway: what the
 * extra host "gateway" means, 0: nothing. */
int container_record(const struct container *c, const struct service_spec *s, unsigned addresses,
	uint32_t gateway, struct buf *ret, struct err *e);
/* A directory that a command names, in that of the service. */
int container_cwd(const struct container *c, const char *cwd, char **ret, struct err *e);
