/* egress.h - egress of a sandbox: starts pasta, refuses the host's addresses, opens the addresses
 * of allowed names. For the holder's main thread. */
#pragma once

#include "net/holder/state.h"

/*
 * These three do nothing if the plan has no egress. First egress_read_host reads the host's
 * addresses, for the rules that refuse them. When the rules are in force, egress_start starts
 * pasta, which takes some time. At last egress_set_up_interface waits for pasta's interface and
 * sets it up; call it again whenever pasta was restarted.
 */
int egress_read_host(struct holder *h, struct err *e);
int egress_start(struct holder *h, struct err *e);
int egress_set_up_interface(struct holder *h, struct err *e);
/* Reads the host's addresses again if they may have changed, and updates the rules. */
int egress_update_host(struct holder *h, struct err *e);
/* Adds up to SET_MESSAGE_ADDRS addresses to a set of opened ones, all or none, for so many seconds.
 * No address may be there twice. Waits for nothing. */
int egress_open_addresses(struct holder *h, const char *set, const uint32_t *addrs, unsigned n,
	uint32_t seconds, struct err *e);
