/* containers.h - container images that a spec names are got before a sandbox is made. Called in a
 * request's thread. */
#pragma once

#include "daemon/request.h"

/*
 * Pulls and builds what VMs of the spec are made of, if it is missing, and names the images by
 * their digests instead. *spec, which read_spec has made, is replaced. Does nothing for other
 * specs.
 */
int get_containers(
	struct request *rq, struct driver *drv, struct sandbox_spec **spec, struct err *e);
