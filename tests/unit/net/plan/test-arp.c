/* Questions by ARP, and who answers them. */
#include "net/plan/arp.h"

#include <string.h>

#include "tap.h"

#define ADDRESS 0x0a140002u

static const struct mac_addr us = {{0x02, 1, 2, 3, 4, 5}};

/* 10.20.0.2 is at 52:54:00:20:00:02, says an answer to us. */
static const uint8_t answer[ARP_FRAME] = {0x02, 1, 2, 3, 4, 5, 0x52, 0x54, 0, 0x20, 0, 2, 8, 6, 0,
	1, 8, 0, 6, 4, 0, 2, 0x52, 0x54, 0, 0x20, 0, 2, 10, 20, 0, 2, 2, 1, 2, 3, 4, 5};

static void test_question(void)
{
	static const uint8_t wanted[ARP_FRAME] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 1, 2, 3, 4,
		5, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10,
		20, 0, 2};
	uint8_t frame[ARP_FRAME];

	arp_question(us, ADDRESS, frame);
	tap_ok(memcmp(frame, wanted, sizeof(frame)) == 0, "a question of somebody without address");
	tap_ok(!arp_claims((struct bytes){frame, sizeof(frame)}, ADDRESS), "claims nothing");
}

static void test_answers(void)
{
	uint8_t frame[ARP_FRAME + 18];

	memset(frame, 0xaa, sizeof(frame));
	memcpy(frame, answer, sizeof(answer));
	tap_ok(arp_claims((struct bytes){frame, ARP_FRAME}, ADDRESS), "an answer");
	tap_ok(arp_claims((struct bytes){frame, sizeof(frame)}, ADDRESS), "an answer, padded");
	tap_ok(!arp_claims((struct bytes){frame, ARP_FRAME}, ADDRESS + 1), "of another");
	for (size_t n = 0; n < ARP_FRAME; n++)
		if (arp_claims((struct bytes){frame, n}, ADDRESS))
			tap_ok(false, "of %zu bytes", n);
	/* Type, hardware, protocol, their lengths, the operation. */
	for (size_t at = 12; at < 22; at++) {
		frame[at] ^= 0x10;
		tap_ok(!arp_claims((struct bytes){frame, ARP_FRAME}, ADDRESS),
			"not with another byte %zu", at);
		frame[at] ^= 0x10;
	}
	frame[21] = 1;
	tap_ok(arp_claims((struct bytes){frame, ARP_FRAME}, ADDRESS), "an announcement");
}

int main(void)
{
	test_question();
	test_answers();
	return tap_done();
}
