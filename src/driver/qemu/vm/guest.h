/* guest.h - opening links into a VM's guest, for driver/links.h; their argument is the VM. */
#pragma once

#include "driver/links.h"

extern const struct guest_links_ops qemu_links;
