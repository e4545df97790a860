/* config.h - the optional configuration file (docs/configuration.md), read once at the start. Any
 * thread may read the result. */
#pragma once

#include <jansson.h>

#include "util/buf.h"
#include "util/err.h"

struct config {
	char *accel;                 /* "auto", "kvm", "tcg" */
	char *qemu;                  /* name or path of the emulator */
	char *log_level;             /* "debug", "info", "warn", "error" */
	char *image_mirror;          /* replaces the hosts of downloads for servers; "": none */
	double idle_exit;            /* seconds; 0: never */
	double boot_timeout;         /* seconds until a guest must have answered */
	double outage_timeout;       /* seconds that a server may be away */
	unsigned memory_keep_mb;     /* memory of the host that VMs may not take */
	unsigned templates_max_mb;   /* disk for templates; 0: none are made */
	unsigned download_max_mb;    /* the most that a download may have; 0: any */
	unsigned container_disk_gb;  /* size of the disks of container images */
	unsigned container_cache_mb; /* disk for layers and builds that a later image may need */
	char *registry_auth_file;    /* logins for registries; "": where skopeo looks itself */
	char *compose_egress;        /* "open" or "deny": where networks of compose files lead */
	char *proxmox_repository;    /* of Proxmox VE's packages; "": the vendor's */
};

/* Reads the text of the file. Pure. */
int config_parse(struct bytes text, struct config *ret, struct err *e);
/* A missing file means the defaults; a wrong one is an error that names the place. */
int config_load(const char *path, struct config *ret, struct err *e);
int config_defaults(struct config *ret, struct err *e);
void config_free(struct config *c);
/* For `moat info`. */
json_t *config_to_json(const struct config *c);
