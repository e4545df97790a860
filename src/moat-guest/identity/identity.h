/*
 * identity.h - gives a copy of a running system an identity of its own: clock, randomness, names,
 * keys, NICs. It is done right in the loop: nothing else goes on in a VM that has just been copied.
 */
#pragma once

#include "wire/wire.h"

struct runner;

enum { MACHINE_ID_LEN = 32 };

/* The kinds of SSH host keys. */
static const char *const identity_kinds[WIRE_KEYS_MAX] = {"ed25519", "ecdsa", "rsa"};

struct identity_key {
	const char *kind, *secret, *public;
};

struct identity_nic {
	uint8_t old[6], mac[6];
};

/* Points into the frame. */
struct identity {
	uint32_t flags;
	uint64_t now_ns;
	const char *hostname, *machine_id; /* "" if they are not to be set */
	struct identity_nic nics[WIRE_NICS_MAX];
	uint32_t n_nics;
	struct identity_key keys[WIRE_KEYS_MAX];
	uint32_t n_keys;
	const uint8_t *random;
	size_t n_random;
};

/* Pure. False: the frame makes no sense. */
bool identity_parse(const struct wire_msg *m, const struct frame *f, struct identity *ret);

/* Answers DONE. False: the frame makes no sense. */
bool identity_handle(struct runner *r, const struct wire_msg *m, const struct frame *f);

/* New SSH host keys of the kinds that are there, and tells sshd. 0 or an errno. */
int hostkeys_renew(struct runner *r, const struct identity *id);
/* The loop calls this when r->sshd.look_at has come. */
void hostkeys_look(struct runner *r);
