/* arp.h - asks by ARP whether somebody has an address. Pure; the answers are a guest's. */
#pragma once

#include "spec/net-addr.h"
#include "util/buf.h"

enum { ARP_FRAME = 42 };

/* The question, as RFC 5227 wants it of somebody who has no address: nobody learns anything of it.
 * from: who gets the answer. */
void arp_question(struct mac_addr from, uint32_t address, uint8_t out[static ARP_FRAME]);
/* Whether the sender of this frame says that the address is its own. */
bool arp_claims(struct bytes frame, uint32_t address);
