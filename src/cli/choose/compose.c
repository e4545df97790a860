#include "cli/choose/compose.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/client/access.h"
#include "util/auto.h"

int compose_ask(struct cli *cli, const char *path, json_t *config, json_t **ret, json_t **ret_told,
	struct err *e)
{
	auto_json json_t *env = NULL, *args = NULL, *told = NULL;
	char here[PATH_MAX];
	char *full = path ? realpath(path, here) : getcwd(here, sizeof(here));

	if (!full)
		return err_sys(e, errno, "%s", path ? path : "the current directory");
	if (access_environment(&env, e) < 0)
		return -1;
	if (path ? json_make(&args, e, "{s:s, s:O}", "path", full, "env", env) < 0
		 : json_make(&args, e, "{s:O, s:s, s:O}", "config", config, "directory", full,
			   "env", env) < 0)
		return -1;
	if (cli_request(cli, "compose", json_incref(args), &told, e) < 0)
		return -1;
	*ret = json_incref(json_object_get(told, "spec"));
	*ret_told = take_ptr(&told);
	return 0;
}

void compose_tell(struct cli *cli, const json_t *told, bool all)
{
	const char *name;
	json_t *one;
	size_t i;

	json_object_foreach(json_object_get(told, "networks"), name, one)
		if (strcmp(json_string_value(one), "open") == 0)
			cli_note(cli,
				"network %s: open to the Internet, but not to this machine or "
				"private "
				"networks; MOAT_COMPOSE_EGRESS=deny closes it",
				name);
	if (!all)
		return;
	json_array_foreach(json_object_get(told, "accepted"), i, one)
		cli_note(cli, "%s: %s: has no effect: %s", get_str(one, "file"),
			get_str(one, "place"), get_str(one, "why"));
}
