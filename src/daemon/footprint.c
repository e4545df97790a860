#include "daemon/footprint.h"

#include <unistd.h>

#include "driver/usage.h"
#include "util/auto.h"

unsigned long long footprint_qemu_mb(void)
{
	static const char *const names[] = {
		"qemu-system", "qemu-kvm"}; /* as distributions have it */
	unsigned long long bytes = 0;

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct usage u;

		/* Shared pages are a template's. They are there once, and no promise to a VM covers
		 * them. */
		usage_of_tree((int)getpid(), names[i], &u);
		bytes += u.unshared;
	}
	return bytes >> 20;
}
