/* paths.h - the directories that moat uses: those of XDG, each of which can be overridden. See
 * docs/configuration.md. Any thread. */
#pragma once

#include "util/err.h"

struct paths {
	char *runtime; /* the socket; the state directory unless moat's own variables say otherwise
			*/
	char *state;   /* journal, logs, the sandboxes' overlays */
	char *data;    /* images */
	char *cache;   /* downloaded packages: may be deleted at any time */
	char *config;  /* the configuration file, which need not exist */
	char *socket;  /* of any length: rendezvous.h */
};

/* Reads the environment; makes no directory. */
int paths_load(struct paths *ret, struct err *e);
/* Makes the directories, private to us. Refuses a runtime directory that belongs to
 * another user. */
int paths_make(const struct paths *p, struct err *e);
void paths_free(struct paths *p);
#define auto_paths __attribute__((cleanup(paths_free)))

/* Finds a file that was installed or built beside the running binary: names such as "moat-guest" or
 * "recipes". ERR_NOT_FOUND's message is the name alone. */
int paths_find_part(const char *name, char **ret, struct err *e);

/* The file with the certificates of those whom this machine trusts; NULL: not found. A program that
 * is made for many systems has to look; SSL_CERT_FILE overrides, as it does elsewhere. */
const char *paths_ca_file(void);
