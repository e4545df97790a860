/*
 * hostkey.h - SSH host keys for guests, made on the host: there it takes a moment, in a guest
 * without hardware help seconds. Any thread.
 */
#pragma once

#include "util/err.h"

struct hostkey {
	char kind[8];          /* "ed25519", "ecdsa", "rsa" */
	char *secret, *public; /* as the files in /etc/ssh have them */
};
enum { HOSTKEYS_MAX = 3 }; /* kinds that there are */

/* comment: behind the public key. ERR_UNSUPPORTED: no such kind. */
int hostkey_make(const char *kind, const char *comment, struct hostkey *ret, struct err *e);
void hostkey_free(struct hostkey *k); /* wipes it; fine on a zeroed one */
