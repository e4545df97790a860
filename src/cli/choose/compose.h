/* compose.h - compose files and Dockerfiles on the command line. */
#pragma once

#include "cli/cli.h"

/*
 * Asks the daemon for the spec of a compose file or Dockerfile: of that at path, or of config,
 * which is one as JSON. *ret_told: all that it said.
 */
int compose_ask(struct cli *cli, const char *path, json_t *config, json_t **ret, json_t **ret_told,
	struct err *e);
/* Says where its networks lead; and with all, what of the file has no meaning in VMs. */
void compose_tell(struct cli *cli, const json_t *told, bool all);
