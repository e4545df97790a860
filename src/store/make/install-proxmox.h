/* install-proxmox.h - a Proxmox VE server as an image: Debian with the vendor's packages. Any
 * thread. */
#pragma once

#include "store/catalog.h"
#include "store/cloud.h"

/* Builds it; the caller has claimed its name. The result has root's password. */
int install_proxmox(struct store *st, const struct op *op, const struct proxmox_release *release,
	struct image **ret, struct err *e);
