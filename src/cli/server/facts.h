/* facts.h - what a Proxmox VE server in a VM says of itself. Pure. */
#pragma once

#include "util/buf.h"

enum { FACTS_MAX = 4096 };

struct server_facts {
	char node[64];        /* letters, digits and hyphens */
	char fingerprint[96]; /* hex digits and colons */
	char password[65];    /* letters and digits */
};

/* Reads the output of share/recipes/proxmox/files/facts.sh, which the guest may have altered: what
 * it gives has none of the characters that mean something to a shell. */
int facts_parse(struct bytes text, struct server_facts *ret, struct err *e);
