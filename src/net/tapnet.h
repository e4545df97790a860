/* tapnet.h - NICs on the sandbox's own networks: taps that QEMU has open already. Pure. */
#pragma once

#include "net/plan.h"
#include "util/strv.h"

/* Adds the arguments for the NICs of VM number vm; its taps are first_fd and those after it. */
void tapnet_args(const struct net_plan *p, size_t vm, int first_fd, struct strv *args);
