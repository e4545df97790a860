/* draft.h - an image that is being made: a scratch directory that becomes an image or is deleted. A
 * draft belongs to one thread. */
#pragma once

#include "store/catalog.h"

struct draft {
	const struct store *st;
	char *dir, *out, *work; /* out: becomes the image; work: scratch files */
	int hold;               /* held so that no sweep deletes dir; children may inherit it */
};

int draft_new(const struct store *st, struct draft **ret, struct err *e);
void draft_free(struct draft *d); /* deletes the directory; NULL is fine */
static inline void auto_draftp(struct draft **d)
{
	draft_free(*d);
}
#define auto_draft __attribute__((cleanup(auto_draftp)))

/* Takes the files of another image that the manifest m names, but for those that are there already:
 * files of images do not change, so both can have the same. The caller uses the other image. */
int draft_take_files(struct draft *d, const char *from_dir, const json_t *m, struct err *e);
/* Makes an image of d->out as the manifest m says, and gives it the name. Then removes the image
 * that had the name before, if it is unused. The caller has claimed the name. Adds members to m. */
int draft_commit(const struct op *op, struct draft *d, json_t *m, const char *name,
	struct image **ret, struct err *e);
/* Gives an existing image the name. Returns 1, or 0 if the image does not exist any more. */
int draft_name_existing(const struct op *op, struct draft *d, const char *digest, const char *name,
	struct image **ret, struct err *e);
/* Gives the name to an image whose manifest has the same "source", and the same description, user
 * and kind of system. Returns 1, or 0 if there is none. */
int draft_reuse(const struct op *op, struct draft *d, const json_t *m, const char *name,
	struct image **ret, struct err *e);
