#include "guestlink/runners.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/auto.h"
#include "util/str.h"
#include "util/system/paths.h"

const char *const runner_arch[] = {"x86_64", "aarch64"};
const char *const runner_packages[] = {"musl-tools", "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"};
static_assert(ARRAY_LEN(runner_arch) == RUNNERS, "a name for each");
static_assert(ARRAY_LEN(runner_packages) == RUNNERS, "packages for each");

void runners_find(struct runners *ret)
{
	*ret = (struct runners){0};
	for (unsigned i = 0; i < RUNNERS; i++) {
		char name[64];
		struct err ignored;

		snprintf(name, sizeof(name), "moat-guest-%s", runner_arch[i]);
		if (paths_find_part(name, &ret->path[i], &ignored) < 0)
			ret->path[i] = NULL;
		snprintf(name, sizeof(name), "moat-init-%s", runner_arch[i]);
		if (paths_find_part(name, &ret->init[i], &ignored) < 0)
			ret->init[i] = NULL;
	}
}

void runners_free(struct runners *r)
{
	for (unsigned i = 0; i < RUNNERS; i++) {
		free(r->path[i]);
		free(r->init[i]);
	}
	*r = (struct runners){0};
}

int runners_lack(const char *arch, struct err *e)
{
	char said[40];

	for (unsigned i = 0; i < RUNNERS; i++)
		if (strcmp(arch, runner_arch[i]) == 0)
			return err_set(e, ERR_UNSUPPORTED,
				"moat-guest-%s is not installed with moat: apt-get install %s, "
				"then build moat again",
				arch, runner_packages[i]);
	str_escape(arch, strlen(arch), said, sizeof(said));
	return err_set(e, ERR_UNSUPPORTED, "moat has no moat-guest for \"%s\" guests", said);
}

const char *runners_init(const struct runners *r, const char *arch, struct err *e)
{
	for (unsigned i = 0; i < RUNNERS; i++)
		if (r->init[i] && strcmp(arch, runner_arch[i]) == 0)
			return r->init[i];
	err_set(e, ERR_UNSUPPORTED, "moat-init for this image's architecture is not installed");
	return NULL;
}

const char *runners_for(const struct runners *r, const char *arch, struct err *e)
{
	for (unsigned i = 0; i < RUNNERS; i++)
		if (r->path[i] && strcmp(arch, runner_arch[i]) == 0)
			return r->path[i];
	runners_lack(arch, e);
	return NULL;
}
