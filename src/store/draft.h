/* draft.h - an image in the making: a scratch directory that becomes an image or nothing. */
#pragma once

#include "store/catalog.h"

struct draft {
	const struct store *st;
	char *dir, *out, *work; /* out: what will be the image; work: scratch */
	int hold;               /* keeps dir from being swept; children may share it */
};

int draft_new(const struct store *st, struct draft **ret, struct err *e);
void draft_free(struct draft *d); /* with all that is in it; NULL is fine */
static inline void auto_draftp(struct draft **d)
{
	draft_free(*d);
}
#define auto_draft __attribute__((cleanup(auto_draftp)))

/*
 * Makes an image of d->out as the manifest says, gives it the name, and removes the image that had
 * the name before if nobody uses it. The caller has claimed the name. m gets what is added.
 */
int draft_commit(const struct op *op, struct draft *d, json_t *m, const char *name,
	struct image **ret, struct err *e);
/* Gives an image that is there already the name: 1; or 0 if it is gone. */
int draft_name_existing(const struct op *op, struct draft *d, const char *digest, const char *name,
	struct image **ret, struct err *e);
