/* seed.h - writes the cloud-init disk: an ISO 9660 image labelled CIDATA with user-data, meta-data
 * and network-config. Any thread. */
#pragma once

#include "spec/spec.h"

int seed_write(const char *path, const char *instance_id, const struct vm_spec *vm, struct err *e);
