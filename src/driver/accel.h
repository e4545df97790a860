/* accel.h - whether this machine can run VMs on its own CPU. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* false: why has the reason, for people. Being able to open /dev/kvm is not enough: the CPU must
 * have vmx or svm. */
bool accel_kvm_works(char *why, size_t why_size);
