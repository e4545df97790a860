/* accel.h - tells whether this machine can run VMs on its own CPU. Any thread. */
#pragma once

#include <stdbool.h>

struct kvm_report {
	const char *why; /* why it does not work; "" if it does */
	const char *fix; /* what to do about it */
};

/* Being able to open /dev/kvm is not enough: the CPU must have vmx or svm. */
bool accel_kvm_works(struct kvm_report *ret);
