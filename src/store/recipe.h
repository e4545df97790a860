/* recipe.h - runs recipes, the scripts that build images: RECIPE_DIR/NAME.sh, as `sh NAME.sh OUT
 * WORK`. Any thread. */
#pragma once

#include "store/draft.h"

/* The path of a recipe. The message of ERR_NOT_FOUND lists the existing ones. */
int recipe_find(const struct store *st, const char *name, char **ret, struct err *e);

struct recipe_run {
	const char *path; /* of the recipe */
	const char *name; /* of the image */
	const char *log;  /* path of the log, which gets the recipe's stderr */
	/* "NAME=VALUE" besides what all recipes get; NULL: nothing more. NULL at the end. */
	const char *const *env;
};
/* Runs a recipe, which fills d->out. Its progress lines go to op; if it fails, the error has its
 * last line. */
int recipe_run(const struct op *op, struct draft *d, const struct recipe_run *run, struct err *e);
