/* agent-parse.h - what the scripts of the plain agent's way print. Pure; the guest is hostile. */
#pragma once

#include "guest/guest.h"

/*
 * Takes the script's last line, marked with tag, off its stderr and makes a guest_exit of it.
 * false: there is none.
 */
bool agent_parse_end(struct buf *err, const char *tag, struct guest_exit *ret);

/* The output of agent_script_list, entry by entry. */
int agent_parse_list(struct bytes out,
	int (*each)(void *arg, const struct guest_entry *entry, struct err *e), void *arg,
	struct err *e);
