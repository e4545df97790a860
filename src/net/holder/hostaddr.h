/*
 * hostaddr.h - every IPv4 address that is this host itself, from the kernel's table of local
 * routes: addresses of all interfaces, broadcast addresses, and networks that were made local as a
 * whole. For the holder's main thread.
 */
#pragma once

#include "spec/net-addr.h"
#include "util/buf.h"

struct hostaddr {
	int fd; /* netlink; readable when the table may have changed */
	struct ipv4_net *nets;
	size_t n, cap;
};

int hostaddr_open(struct hostaddr *h, struct err *e);
/* Reads the table again. */
int hostaddr_scan(struct hostaddr *h, struct err *e);
/* Drops the notifications of changes; 1 if there were any. */
int hostaddr_changed(struct hostaddr *h);
bool hostaddr_has(const struct hostaddr *h, uint32_t addr);
/* Text for `nft -f -` that replaces the set "host" in one transaction. */
int hostaddr_script(const struct hostaddr *h, struct buf *ret, struct err *e);
