/*
 * hostkey.h - SSH host keys for guests, made on the host. That takes a moment, where an emulated
 * guest needs seconds. Any thread.
 */
#pragma once

#include "util/err.h"

struct hostkey {
	char kind[8];          /* "ed25519", "ecdsa", "rsa" */
	char *secret, *public; /* as the files in /etc/ssh have them */
};
enum { HOSTKEYS_MAX = 3 }; /* the number of kinds */

/* comment: the last word of the public key's line. ERR_UNSUPPORTED: we make no such kind. */
int hostkey_make(const char *kind, const char *comment, struct hostkey *ret, struct err *e);
void hostkey_free(struct hostkey *k); /* wipes it; fine on a zeroed one */
