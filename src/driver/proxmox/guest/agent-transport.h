/*
 * agent-transport.h - carries calls of the guest agent (guestlink/agent/qga.h) through a server's
 * API: the link without the runner, for guests where it cannot run, and for Windows. Any thread.
 */
#pragma once

#include "driver/proxmox/guest/agent.h"
#include "guestlink/agent/qga.h"

struct pve_agent_transport {
	struct pve_agent *agent;
	bool windows;
};
/* Borrows t, which outlives *ret. */
int pve_agent_transport_open(struct pve_agent_transport *t, struct qga **ret, struct err *e);

/* Pure: bytes as the code points U+0000 to U+00FF, of which the server makes bytes again. */
int pve_latin1(const char *p, size_t n, struct buf *ret, struct err *e);
/* Pure: appends words, each quoted for a shell. */
int pve_quote(struct buf *b, const char *const *words, struct err *e);
