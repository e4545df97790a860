/* sums.h - reads what proves a download: lists of checksums, as sha256sum writes them, keys in
 * ASCII armour, and gpgv's status. Pure; all but the last may be anybody's bytes. */
#pragma once

#include <stdbool.h>

#include "util/buf.h"

enum { SUM_HEX_MAX = 128 };

/* Finds the checksum of a file: `digits` hex digits, in lower case afterwards. ERR_INVALID: the
 * list does not name the file, or twice with different sums. */
int sums_find(struct bytes list, const char *file, unsigned digits, char ret_hex[SUM_HEX_MAX + 1],
	struct err *e);
/* Appends the bytes of a key. What is not armoured is taken as it is. */
int sums_unarmour(struct bytes key, struct buf *ret, struct err *e);
/* Whether gpgv's status says that a key with that primary fingerprint has signed. */
bool sums_signed_by(struct bytes status, const char *fingerprint);
