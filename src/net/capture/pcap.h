/* pcap.h - captured frames as a pcap file has them. Pure. */
#pragma once

#include <time.h>

#include "util/buf.h"

enum { PCAP_SNAP = 262144 };

/* What the file begins with. */
int pcap_header(struct buf *ret, struct err *e);
struct pcap_frame {
	struct timespec at;
	struct bytes data; /* as much of it as there is; with its Ethernet header */
	size_t full;       /* its whole length */
	bool tagged;       /* the kernel has taken a VLAN tag out: it is put back */
	uint16_t tpid, tci;
};
int pcap_add(struct buf *ret, const struct pcap_frame *f, struct err *e);
