/* paths.h - where moat keeps things; XDG directories, each overridable. See docs/configuration.md.
 */
#pragma once

#include "util/err.h"

struct paths {
	char *runtime; /* socket; gone after a reboot */
	char *state;   /* journal, logs, the sandboxes' overlays */
	char *data;    /* images */
	char *cache;   /* downloaded packages: may be deleted at any time */
	char *config;  /* the configuration file, which need not exist */
	char *socket;
};

/* Reads the environment; makes nothing. */
int paths_load(struct paths *ret, struct err *e);
/* Makes the directories, private to us; refuses a runtime directory that belongs to somebody else.
 */
int paths_make(const struct paths *p, struct err *e);
void paths_free(struct paths *p);
#define auto_paths __attribute__((cleanup(paths_free)))

/*
 * Finds what was installed or built beside the running binary: names such as "moat-guest" or
 * "share/moat/recipes". ERR_NOT_FOUND lists nothing more than the name.
 */
int paths_find_part(const char *name, char **ret, struct err *e);
