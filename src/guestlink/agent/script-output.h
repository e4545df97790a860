/* script-output.h - parses what the scripts of scripts/ print. Pure; the guest is hostile. */
#pragma once

#include "guestlink/guest.h"

/* Takes run.sh's last line, which begins with tag, off the end of its stderr, and fills *ret from
 * it. false: there is no such line. */
bool agent_parse_end(struct buf *err, const char *tag, struct guest_exit *ret);

/* Calls each() for every entry in the output of agent_script_list. */
int agent_parse_list(struct bytes out,
	int (*each)(void *arg, const struct guest_entry *entry, struct err *e), void *arg,
	struct err *e);
