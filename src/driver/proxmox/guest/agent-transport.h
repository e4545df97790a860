/*
 * pve-door.h - a VM's agent on a Proxmox VE server for those that know only the agent itself
 * (qga.h): the plain ways in, for guests where the runner cannot run, and for Windows.
 */
#pragma once

#include "guest/pve-agent.h"
#include "guest/qga.h"

struct pve_door {
	struct pve_agent *agent;
	bool windows;
};
/* Borrows the door. */
int pve_door_open(struct pve_door *d, struct qga **ret, struct err *e);

/* Pure: bytes as the code points U+0000 to U+00FF, which is what the server makes bytes of. */
int pve_latin1(const char *p, size_t n, struct buf *ret, struct err *e);
/* Pure: words of a shell, each quoted. */
int pve_quote(struct buf *b, const char *const *words, struct err *e);
