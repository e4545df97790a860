/* service.h - one service of a compose file becomes a VM of the spec. */
#pragma once

#include "compose/load.h"

struct service {
	struct model *m;
	const char *name, *file;
	json_t *body;
	json_t *vm;   /* of the spec */
	json_t *runs; /* the VM's `service` */
};

/* names: object, which VM each service is. */
int service_to_vm(
	struct model *m, const char *name, const json_t *names, json_t **ret, struct err *e);

/* A member of the service; NULL: absent or null. */
json_t *service_get(const struct service *s, const char *name);
/* Puts the place of a member in front of an error. */
int service_wrap(const struct service *s, const char *name, struct err *e);
int service_refuse(const struct service *s, const char *name, const char *why, struct err *e);
int service_accept(const struct service *s, const char *name, const char *why, struct err *e);

/* Each takes some of the members. */
int service_runs(struct service *s, struct err *e); /* run.c: program, variables, user, limits */
int service_resources(
	struct service *s, struct err *e); /* resources.c: memory, processors, devices */
int service_volumes(struct service *s, struct err *e); /* volumes.c */
int service_health(struct service *s, struct err *e);  /* health.c */
int service_nics(struct service *s, struct err *e);    /* networks.c: networks and their aliases */
