/* test-vnc-auth.c - DES against known answers, and a viewer's answer. */
#include "screen/vnc-auth.h"
#include "tap.h"

static const char *encrypted(const char *key, const char *in)
{
	static char text[17];
	uint8_t k[8], p[8], c[8];

	for (int i = 0; i < 8; i++) {
		unsigned a, b;

		sscanf(key + 2 * i, "%2x", &a);
		sscanf(in + 2 * i, "%2x", &b);
		k[i] = (uint8_t)a;
		p[i] = (uint8_t)b;
	}
	des_encrypt(k, p, c);
	for (int i = 0; i < 8; i++)
		snprintf(text + 2 * i, 3, "%02x", c[i]);
	return text;
}

int main(void)
{
	uint8_t challenge[VNC_CHALLENGE], answer[VNC_CHALLENGE];
	char text[2 * VNC_CHALLENGE + 1];

	STR_IS(encrypted("133457799bbcdff1", "0123456789abcdef"), "85e813540f0ab405");
	STR_IS(encrypted("0e329232ea6d0d73", "8787878787878787"), "0000000000000000");
	STR_IS(encrypted("0101010101010101", "8000000000000000"), "95f8a5e5dd31d900");
	STR_IS(encrypted("8001010101010101", "0000000000000000"), "95a8d72813daa94d");
	STR_IS(encrypted("7ca110454a1a6e57", "01a1d6d039776742"), "690f5b0d9a26939b");

	for (int i = 0; i < VNC_CHALLENGE; i++)
		challenge[i] = (uint8_t)i;
	vnc_answer("secret", challenge, answer);
	for (int i = 0; i < VNC_CHALLENGE; i++)
		snprintf(text + 2 * i, 3, "%02x", answer[i]);
	STR_IS(text, "ee22539f33a5983ec12f9c2edbc995dd"); /* as OpenSSL has it */
	return tap_done();
}
