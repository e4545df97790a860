/*
 * site.h - servers: sites, and the instances on them. A site or an instance lives as long as the
 * driver; any thread may use it. pve_site.mu guards what the sandboxes on one site share,
 * pve_driver.mu (state.h) the state of instances.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "driver/proxmox/api/api.h"
#include "spec/net-addr.h"
#include "util/thread/lock.h"
#include "util/thread/bell.h"
#include "util/thread/turn.h"

/* What a sandbox of ours has on a site, so that no other sandbox can have it there. */
struct pve_range {
	struct pve_range *next;
	struct ipv4_net net; /* a network; or, if mac is set, */
	struct mac_addr mac; /* a NIC: the server keeps one IP address for a MAC, in any zone */
	char owner[40];      /* pve_sandbox.range_key */
};

struct pve_site {
	struct pve_site *next;
	char *key;      /* "user@realm@host:port": how the journal names the site */
	char *base_url; /* "https://host:port" */
	struct pve_api *api;
	struct pve_api *old_apis[8]; /* with earlier passwords; sandboxes may still use them */
	unsigned n_old;
	json_t *access;        /* as the client sent it, with secrets: for access.c only */
	struct turn applying;  /* one thread at a time applies SDN changes */
	struct slots starting; /* VMs that are starting, or an apply */
	struct bell sdn_bell;  /* rung when what network/apply.c counts has changed */
	struct turn naming;    /* one thread at a time chooses a zone's name */
	struct turn building;  /* one thread at a time makes a template */

	struct lock mu;
	uint64_t sdn_wanted, sdn_applied;
	unsigned sdn_changing; /* threads that make changes which need an apply */
	unsigned sandboxes;    /* those whose networks are not being removed */
	struct pve_range *ranges;
	unsigned ids[64]; /* vmids that are being used for a new VM; 0: free slot */
	json_t *zones;    /* object: zones of ours in the journal; NULL: not read yet */
	json_t *cache;    /* path to what GET answered: {"at": ns, "data": ...} */
};

enum pve_inst_state { PVE_INST_OK, PVE_INST_FAILED, PVE_INST_DIRTY };

struct pve_inst {
	struct pve_inst *next;
	char *id, *pool, *node;
	char *image_storage, *iso_storage,
		*import_storage; /* the last two may be NULL: then node.h chooses */
	char *tags;              /* of VMs, besides their stamp: "a;b" */
	unsigned max_sandboxes;  /* 0: as memory allows */
	struct pve_site *site;

	/* Guarded by pve_driver.mu. */
	enum pve_inst_state state;
	bool disabled;
	int64_t look_again_ns; /* PVE_INST_FAILED: not before */
	char why[256];
	unsigned sandboxes;
	uint64_t promised_mb; /* of VMs that do not run yet */
};

/* Without an API: pve_access_read gives it one. */
int pve_site_new(const char *key, const char *host, int port, struct pve_site **ret, struct err *e);
void pve_site_free(struct pve_site *s); /* NULL is fine */
void pve_inst_free(struct pve_inst *i);

/* A sandbox comes to the site; its networks are about to be removed. */
void pve_site_enter(struct pve_site *s);
void pve_site_leave(struct pve_site *s);

/* How to reach it now; stays valid for as long as the driver is open. */
struct pve_api *pve_site_api(struct pve_site *s);
/* pve_api_hurry for each way to reach it. The caller holds pve_driver.mu. */
void pve_site_hurry(struct pve_site *s);
