/* spec.h - what a spec becomes when its Vagrantfile has said what machines there are. */
#pragma once

#include "driver/vagrant/sandbox.h"

/* Sets b->spec, and sorts b->vms by it. */
int vagrant_sandbox_spec(struct vagrant_sandbox *b, const struct op *op,
	const struct sandbox_spec *asked, struct err *e);
