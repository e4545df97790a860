/* recipe.h - the scripts that build images: RECIPE_DIR/NAME.sh, run as `sh NAME.sh OUT WORK`. */
#pragma once

#include "store/draft.h"

/* The path of a recipe. ERR_NOT_FOUND names those that there are. */
int recipe_find(const struct store *st, const char *name, char **ret, struct err *e);

struct recipe_run {
	const char *path; /* of the recipe */
	const char *name; /* of the image */
	const char *log;  /* path: gets what the recipe prints on stderr */
};
/* Runs it into d->out. Its progress lines go to op; its last words into the error. */
int recipe_run(const struct op *op, struct draft *d, const struct recipe_run *run, struct err *e);
