#include "compose/text/paths.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "util/auto.h"
#include "util/str.h"

int path_below(const char *dir, const char *path, char **ret, struct err *e)
{
	auto_free char *all = NULL, *out = NULL;
	size_t used = 0;

	if (!*path)
		return err_set(e, ERR_INVALID, "the path is empty");
	if (path[0] == '/' ? str_dup(path, &all, e) < 0
			   : str_printf(&all, e, "%s/%s", dir, path) < 0)
		return -1;
	if (strlen(all) >= PATH_MAX)
		return err_set(e, ERR_INVALID, "the path is too long");
	out = malloc(strlen(all) + 2);
	if (!out)
		return err_oom(e);
	for (const char *at = all; *at;) {
		size_t n;

		at += strspn(at, "/");
		n = strcspn(at, "/");
		if (n == 2 && strncmp(at, "..", 2) == 0) {
			while (used && out[--used] != '/')
				;
		} else if (n && !(n == 1 && at[0] == '.')) {
			out[used++] = '/';
			memcpy(out + used, at, n);
			used += n;
		}
		at += n;
	}
	if (!used)
		out[used++] = '/';
	out[used] = '\0';
	*ret = take_ptr(&out);
	return 0;
}

int path_parent(const char *path, char **ret, struct err *e)
{
	return path_below(path, "..", ret, e);
}
