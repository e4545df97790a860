#include "daemon/registry/name.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { ID_LEN = 10 };

static bool looks_like_id(const char *name)
{
	return strlen(name) == ID_LEN && strspn(name, "0123456789abcdef") == ID_LEN;
}

int name_check(const char *name, struct err *e)
{
	size_t len = strlen(name);

	if (len < 1 || len > NAME_LEN_MAX)
		return err_set(e, ERR_INVALID, "name: not 1 to %d characters", NAME_LEN_MAX);
	if (!isalpha((unsigned char)name[0]))
		return err_set(e, ERR_INVALID, "name: does not begin with a letter");
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)name[i]) && !strchr("-_.", name[i]))
			return err_set(e, ERR_INVALID,
				"name: only letters, digits, '-', '_' and '.' may be in it");
	if (looks_like_id(name))
		return err_set(e, ERR_INVALID, "name: %s looks like the id of a sandbox", name);
	return 0;
}

int name_of_copy(const char *name, unsigned k, char ret[NAME_SIZE], struct err *e)
{
	if (snprintf(ret, NAME_SIZE, "%s-%u", name, k) >= NAME_SIZE)
		return err_set(e, ERR_INVALID, "%s is too long a name for a copy's", name);
	return 0;
}
