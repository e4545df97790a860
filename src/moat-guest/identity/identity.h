/*
 * identity.h - makes a copy of a running system a system of its own: clock, randomness, names,
 * keys, network cards. Done right in the loop: nothing else goes on in a VM that has just been
 * copied.
 */
#pragma once

#include "guest/wire.h"

struct runner;

enum { MACHINE_ID_LEN = 32 };

/* Of SSH host keys. */
static const char *const identity_kinds[WIRE_KEYS_MAX] = {"ed25519", "ecdsa", "rsa"};

struct identity_key {
	const char *kind, *secret, *public;
};

struct identity_card {
	uint8_t old[6], mac[6];
};

/* Points into the frame. */
struct identity {
	uint32_t flags;
	uint64_t now_ns;
	const char *hostname, *machine_id; /* "" if they are not to be set */
	struct identity_card cards[WIRE_CARDS_MAX];
	uint32_t n_cards;
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
/* For the loop, when r->sshd.look_at has come. */
void hostkeys_look(struct runner *r);
