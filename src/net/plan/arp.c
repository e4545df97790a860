#include "net/plan/arp.h"

#include <string.h>

enum {
	AT_TARGET_MAC = 0,
	AT_SOURCE_MAC = 6,
	AT_TYPE = 12,
	AT_OPERATION = 20,
	AT_SENDER_MAC = 22,
	AT_SENDER = 28,
	AT_TARGET = 38,
};
enum { ASKS = 1, ANSWERS = 2 };

/* From the type on: ARP, of IPv4 addresses on Ethernet. */
static const uint8_t head[] = {0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0};

static void put_address(uint8_t *at, uint32_t address)
{
	for (int i = 0; i < 4; i++)
		at[i] = (uint8_t)(address >> (24 - 8 * i));
}

void arp_question(struct mac_addr from, uint32_t address, uint8_t out[static ARP_FRAME])
{
	memset(out, 0, ARP_FRAME);
	memset(out + AT_TARGET_MAC, 0xff, sizeof(from.b));
	memcpy(out + AT_SOURCE_MAC, from.b, sizeof(from.b));
	memcpy(out + AT_TYPE, head, sizeof(head));
	out[AT_OPERATION + 1] = ASKS;
	memcpy(out + AT_SENDER_MAC, from.b, sizeof(from.b));
	put_address(out + AT_TARGET, address);
}

bool arp_claims(struct bytes frame, uint32_t address)
{
	uint8_t wanted[4];

	put_address(wanted, address);
	return frame.len >= ARP_FRAME && memcmp(frame.p + AT_TYPE, head, sizeof(head)) == 0 &&
	       (frame.p[AT_OPERATION + 1] == ASKS || frame.p[AT_OPERATION + 1] == ANSWERS) &&
	       memcmp(frame.p + AT_SENDER, wanted, sizeof(wanted)) == 0;
}
