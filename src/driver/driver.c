#include "driver/driver.h"

#include <string.h>

static const struct driver_ops *const drivers[] = {
	&driver_qemu, &driver_proxmox, &driver_vagrant, NULL};

const struct driver_ops *driver_find(const char *name)
{
	for (unsigned i = 0; drivers[i]; i++)
		if (strcmp(drivers[i]->name, name) == 0)
			return drivers[i];
	return NULL;
}
