/*
 * claims.h - which sandbox of ours has which IP network and which MAC on a site: two sandboxes with
 * the same would disturb each other. Any thread.
 */
#pragma once

#include "driver/proxmox/site/sandbox.h"

/* Whether another sandbox of ours on the site has a network or a MAC that the spec insists on. */
bool pve_claims_clash(const struct pve_sandbox *b, struct pve_site *site);
/* Claims the networks and the MACs that the spec insists on; ERR_BUSY: another sandbox of ours has
 * one of them. */
int pve_claims_take(struct pve_sandbox *b, struct pve_site *site, struct err *e);
/* Claims one more network; ERR_BUSY as above. */
int pve_claims_take_net(
	struct pve_sandbox *b, struct pve_site *site, struct ipv4_net net, struct err *e);
/* Gives back all that the sandbox has claimed; fine if it has no site yet. */
void pve_claims_forget(struct pve_sandbox *b);
