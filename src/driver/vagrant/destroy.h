/* destroy.h - the end of a sandbox's machines. By the sandbox's owner. */
#pragma once

#include "driver/vagrant/dir.h"

/*
 * Destroys all machines of the directory by whatever still can: Vagrant for all at once, Vagrant
 * for each by itself, then the provider's own tools. Fine when there are none. Fails as long as a
 * machine may live, even if somebody has deleted the directory and all that Vagrant knew of it.
 */
int vagrant_destroy_all(struct vagrant_dir *d, const struct op *op, struct err *e);
