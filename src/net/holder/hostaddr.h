/*
 * hostaddr.h - every IPv4 address that is this host itself, as the kernel's table of local routes
 * has it: addresses of all interfaces, broadcast addresses, whole networks that somebody made
 * local. For the holder's main thread.
 */
#pragma once

#include "spec/net-addr.h"
#include "util/buf.h"

struct hostaddr {
	int fd; /* readable when something may have changed */
	struct ipv4_net *nets;
	size_t n, cap;
};

int hostaddr_open(struct hostaddr *h, struct err *e);
/* Reads the table anew. */
int hostaddr_scan(struct hostaddr *h, struct err *e);
/* Forgets that something changed; 1 if anything did. */
int hostaddr_changed(struct hostaddr *h);
bool hostaddr_has(const struct hostaddr *h, uint32_t addr);
/* For `nft -f -`: the set "host" becomes what was scanned, at one stroke. */
int hostaddr_script(const struct hostaddr *h, struct buf *ret, struct err *e);
