/* vnc-auth.h - how a VNC viewer shows that it knows the password. Pure. Its cipher, DES with a key
 * of 8 letters, keeps nobody out for long: it is for a connection within this host. */
#pragma once

#include <stdint.h>

enum { VNC_CHALLENGE = 16, VNC_PASSWORD = 8 };

/* Encrypts 8 bytes. */
void des_encrypt(const uint8_t key[8], const uint8_t in[8], uint8_t ret[8]);
/* The right answer to a challenge. Of the password 8 bytes count. */
void vnc_answer(
	const char *password, const uint8_t challenge[VNC_CHALLENGE], uint8_t ret[VNC_CHALLENGE]);
