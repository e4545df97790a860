/* config.h - the optional configuration file. Read once at the start; docs/configuration.md. */
#pragma once

#include <jansson.h>

#include "util/buf.h"
#include "util/err.h"

struct config {
	char *accel;               /* "auto", "kvm", "tcg" */
	char *qemu;                /* name or path of the emulator */
	char *log_level;           /* "debug", "info", "warn", "error" */
	char *image_mirror;        /* "https://host/path" instead of other people's; "": none */
	double idle_exit;          /* seconds; 0: never */
	double boot_timeout;       /* seconds until a guest must have answered */
	unsigned memory_keep_mb;   /* memory of the host that VMs may not take */
	unsigned templates_max_mb; /* disk for templates; 0: none are made */
};

/* Pure: what the file's text says. */
int config_parse(struct bytes text, struct config *ret, struct err *e);
/* A missing file means the defaults; a wrong one is an error that names the place. */
int config_load(const char *path, struct config *ret, struct err *e);
void config_free(struct config *c);
/* For `moat info`. */
json_t *config_to_json(const struct config *c);
