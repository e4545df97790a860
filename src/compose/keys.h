/* keys.h - all members that compose files have, and what becomes of each. */
#pragma once

#include "compose/load.h"

enum key_of { KEY_OF_FILE, KEY_OF_SERVICE, KEY_OF_BUILD, KEY_OF_NETWORK, KEY_OF_HEALTHCHECK };

/*
 * Goes through the members of an object: those without a meaning are accepted with a reason, those
 * that would mean something else here are refused with what to write instead, and unknown ones are
 * refused. at: its place; "": the file itself.
 */
int keys_check(struct model *m, enum key_of of, const char *file, const json_t *object,
	const char *at, struct err *e);
