/* holder-state.h - what a holder has; for its own files, on its main thread. */
#pragma once

#include <jansson.h>

#include "net/child.h"
#include "net/forward.h"
#include "net/hostaddr.h"

enum { HOLDER_CHILDREN_MAX = 72, HOLDER_WORDS = 400 };

struct lease_file {
	const char *bridge; /* the plan's */
	int fd;
};

struct holder {
	json_t *plan;
	int netns;
	bool nobody;              /* programs may run as nobody */
	char self[40];            /* "/proc/N": how programs find our open files */
	int log[2];               /* what the children say */
	char words[HOLDER_WORDS]; /* the last of that */
	struct child children[HOLDER_CHILDREN_MAX];
	unsigned n_children;
	int out;               /* which of them is pasta; -1: none */
	struct hostaddr hosts; /* fd -1: nobody needs to know */
	struct dns *dns;
	struct forwards *forwards;
	struct lease_file leases[HOLDER_CHILDREN_MAX];
	unsigned n_leases;
};

/* Makes everything that the plan says: when it returns, the rules are in force. */
int holder_setup(struct holder *h, struct err *e);
/* Answers one request. */
int holder_answer(
	struct holder *h, const char *op, json_t *args, json_t **ret, int *ret_fd, struct err *e);
/* For forwards_new; arg is the holder. */
int holder_connect(
	void *arg, const struct op *op, const struct forward *f, int *ret_fd, struct err *e);
