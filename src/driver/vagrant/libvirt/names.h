/* names.h - what libvirt calls domains and disks, and which of them are ours. Pure. */
#pragma once

#include <stdbool.h>

enum { LIBVIRT_UUID_LEN = 36 };

/* Whether it is one in libvirt's own spelling, lower case: virsh takes it for nothing else. */
bool libvirt_is_uuid(const char *text);
/* Whether a line of the text is that word, but for blanks around it. */
bool libvirt_has_line(const char *text, const char *word);
/* Whether vagrant-libvirt gives this name to a disk that it makes for the domain. target: "vdb",
 * what the disk is called in there; NULL: any. */
bool libvirt_is_own_disk(const char *file, const char *domain, const char *target);
