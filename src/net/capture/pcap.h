/* pcap.h - the format of pcap files. Pure. */
#pragma once

#include <time.h>

#include "util/buf.h"

enum { PCAP_SNAP = 262144 };

/* Adds the header of the file. */
int pcap_header(struct buf *ret, struct err *e);
struct pcap_frame {
	struct timespec at;
	struct bytes data; /* the captured part, from its Ethernet header on */
	size_t full;       /* length of the whole frame */
	bool tagged;       /* the kernel has removed a VLAN tag: pcap_add puts it back */
	uint16_t tpid, tci;
};
int pcap_add(struct buf *ret, const struct pcap_frame *f, struct err *e);
