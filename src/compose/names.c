#include "compose/compose.h"

#include <string.h>

#include "util/auto.h"
#include "util/str.h"

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

bool compose_is_dockerfile(const char *path)
{
	const char *name = base_name(path);

	return strcmp(name, "Dockerfile") == 0 || str_starts(name, "Dockerfile.") ||
	       str_ends(name, ".Dockerfile");
}

bool compose_is_compose_file(const char *path)
{
	static const char *const names[] = {"compose.yaml", "compose.yml"};
	const char *name = base_name(path);

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		size_t len = strlen(name), tail = strlen(names[i]);

		if (str_ends(name, names[i]) && (len == tail || strchr("-.", name[len - tail - 1])))
			return true;
	}
	return false;
}
