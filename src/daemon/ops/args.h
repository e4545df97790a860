/* args.h - arguments that several operations have. For the threads of requests. */
#pragma once

#include "daemon/request.h"

/* The number of the sandbox's VM of that name; name NULL: of the default VM. */
int find_vm(const struct sandbox *sb, const char *name, unsigned *ret, struct err *e);
/* Labels as they come from a client. */
int check_labels(json_t *labels, struct err *e);
/* Reads and checks the spec of a client: everything that can be refused before anything is made. */
int read_spec(struct request *rq, json_t *j, struct sandbox_spec **ret, struct driver **ret_driver,
	struct err *e);
/* Borrows a sandbox for something with one of its VMs. name NULL: its default VM. */
int borrow_vm(struct request *rq, const char *sandbox, const char *name, struct borrower *b,
	unsigned *ret_vm, struct err *e);
