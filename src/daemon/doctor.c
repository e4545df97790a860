#include "daemon/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/system/io.h"
#include "util/str.h"

enum { PACKAGES_MAX = 64 * 1024 };

static bool in_dir(const char *dir, size_t dir_len, const char *tool)
{
	auto_free char *path = NULL;
	struct err ignored;

	return str_printf(&path, &ignored, "%.*s/%s", (int)dir_len, dir, tool) == 0 &&
	       access(path, X_OK) == 0;
}

/* Some tools are in sbin in Debian, which the PATH of an ordinary user lacks. Recipes look there,
 * too. */
static bool is_installed(const char *tool)
{
	const char *path = getenv("PATH");

	for (const char *at = path ? path : ""; *at;) {
		size_t len = strcspn(at, ":");

		if (len && in_dir(at, len, tool))
			return true;
		at += len + (at[len] == ':');
	}
	return in_dir("/usr/sbin", 9, tool) || in_dir("/sbin", 5, tool);
}

int doctor_images(const char *recipe_dir, void (*say)(void *arg, const struct check *c), void *arg,
	struct err *e)
{
	auto_free char *path = NULL, *text = NULL;
	unsigned missing = 0;
	char *rest = NULL;

	if (str_printf(&path, e, "%s/packages", recipe_dir) < 0 ||
		file_read(path, PACKAGES_MAX, &text, NULL, e) < 0)
		return -1;
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char tool[64], package[64], recipes[160] = "";
		struct check c = {.state = CHECK_WARN};

		if (line[0] == '#' ||
			sscanf(line, "%63s %63s %159[^\n]", tool, package, recipes) < 2 ||
			is_installed(tool))
			continue;
		missing++;
		c.name = tool;
		snprintf(c.detail, sizeof(c.detail), "not found: cannot build %s", recipes);
		snprintf(c.fix, sizeof(c.fix), "apt-get install %s", package);
		say(arg, &c);
	}
	if (!missing)
		say(arg, &(struct check){.name = "tools",
				 .state = CHECK_OK,
				 .detail = "everything that building images needs"});
	return 0;
}
