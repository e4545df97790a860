/* ovf-text.h - the texts in an OVA. Pure. */
#pragma once

#include <stdint.h>

#include "store/store.h"
#include "util/buf.h"

struct ovf_disk {
	const char *name;  /* of the machine; the disk's file is NAME-disk1.vmdk */
	uint64_t size;     /* bytes of that file */
	uint64_t capacity; /* bytes of the disk */
};
/* The descriptor: a machine with this disk, two processors, 2 GiB of memory and a network card. */
int ovf_text(const struct image *img, const struct ovf_disk *disk, struct buf *ret, struct err *e);
