#include "daemon/footprint.h"

#include <unistd.h>

#include "driver/usage.h"

unsigned long long footprint_qemu_mb(void)
{
	struct usage u;

	/* Shared pages are a template's. They are there once, and no promise to a VM covers them.
	 */
	usage_of_tree((int)getpid(), "qemu-system", &u);
	return u.unshared >> 20;
}
