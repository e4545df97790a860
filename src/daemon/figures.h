/*
 * figures.h - what the VMs use at the moment. It is looked up only when somebody asks, and at most
 * once a second however many ask. Any thread.
 */
#pragma once

#include "daemon/daemon.h"

void figures_init(struct figures *f);
void figures_done(struct figures *f);
/* An array of FIGURES objects of the protocol, the caller's alone. */
int figures_take(struct daemon *d, const struct op *op, json_t **ret, struct err *e);
