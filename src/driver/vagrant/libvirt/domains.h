/* domains.h - domains of libvirt without Vagrant, by `virsh`: for machines that Vagrant refuses to
 * destroy, or has forgotten. Any thread. */
#pragma once

#include "util/strv.h"
#include "util/thread/op.h"

struct libvirt {
	const struct op *op;
	const struct strv *env; /* for virsh */
	const char *uri;        /* where libvirt is */
};

/* Destroys the domain with this uuid and this name, and the disks that Vagrant made for it. 1:
 * destroyed; 0: there is no domain with the uuid. uuid: may come from a guest; domain: may not. */
int libvirt_destroy(const struct libvirt *l, const char *uuid, const char *domain, struct err *e);
/* The same for the domain with this name, if it was made of a Vagrantfile in the directory root, or
 * has id in its name; without a domain, its disks if its name has the id. */
int libvirt_destroy_named(const struct libvirt *l, const char *domain, const char *root,
	const char *id, struct err *e);
/* Destroys all domains that were made of a Vagrantfile in this directory, or have the id in their
 * name. *ret_n: how many were found, also where it fails; ERR_NOT_FOUND: there is no virsh. */
int libvirt_destroy_of(
	const struct libvirt *l, const char *root, const char *id, unsigned *ret_n, struct err *e);
