/* want.h - what a client wants of Vagrant: the settings of a spec's `native`. Any thread. */
#pragma once

#include <jansson.h>

#include "spec/spec.h"

struct vagrant_want {
	char *vagrantfile; /* absolute */
	char *dir;         /* its contents are copied, too; NULL: nothing */
	char *primary;     /* the default machine; NULL: the first */
	bool any_primary;  /* if there is no machine of that name, the first will do */
	char *provider;    /* NULL: Vagrant's choice */
	char *cache_dir;   /* where sandboxes' directories are made */
	json_t *env;       /* for the Vagrantfile: object of strings */
	unsigned max_startups;
};

void vagrant_want_free(struct vagrant_want *w);
#define auto_want __attribute__((cleanup(vagrant_want_free)))
/* access may be NULL: then the environment of this process counts. */
int vagrant_want_read(const struct sandbox_spec *spec, const json_t *access,
	struct vagrant_want *ret, struct err *e);
/* Checks what can be told of a spec without a client. */
int vagrant_want_check(const struct sandbox_spec *spec, struct err *e);
