/* ovf.h - finds the disk in an OVF file, the XML description of a VM. Pure. */
#pragma once

#include "util/buf.h"

enum { OVF_SIZE_MAX = 1024 * 1024, OVF_NAME_MAX = 256 };

/* The file name of the first disk that an .ovf mentions. ERR_INVALID: there is none. */
int ovf_first_disk(struct bytes ovf, char ret_name[OVF_NAME_MAX], struct err *e);
