/*
 * asks.h - what the DNS server, which guests talk to and which has no rights, asks of processes
 * that have some: of the network's holder, to judge an answer's addresses and to open some of them;
 * of the holder's parent, for a socket to one of the host's resolvers. The messages have a fixed
 * form, and whoever gets one takes nothing in it for true. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "net/dns/msg.h"

/* Seconds that an address stays open for: by its answer's TTL, but within these. */
enum { ASK_OPEN_MIN = 600, ASK_OPEN_MAX = 86400 };

/* Every answer repeats the number of what was asked: one that comes too late is not taken for the
 * next. */
struct ask_open {
	uint32_t number;
	uint32_t zone;                 /* its place in the plan's "dns" */
	uint32_t seconds;              /* ASK_OPEN_MIN to ASK_OPEN_MAX */
	uint32_t n, n_open;            /* the first n_open of the addresses are to be opened */
	uint32_t addrs[DNS_ADDRS_MAX]; /* the first n are sent; host byte order */
};

enum ask_verdict { ASK_DONE = 1, ASK_FORBIDDEN, ASK_FAILED };

struct ask_opened {
	uint32_t number, verdict;
};

static inline size_t ask_open_size(const struct ask_open *a)
{
	return offsetof(struct ask_open, addrs) + a->n * sizeof(a->addrs[0]);
}

/* Takes a message of exactly that form, of one of so many zones; false: it is another. */
bool ask_open_parse(struct bytes in, unsigned n_zones, struct ask_open *ret);

/* Answered by its number alone, and a socket if there is a server to try; it is connected, or is
 * being connected. */
struct ask_socket {
	uint32_t number;
	uint32_t stream;  /* 1: TCP; 0: UDP */
	uint32_t attempt; /* the host's resolvers take turns */
};

bool ask_socket_parse(struct bytes in, struct ask_socket *ret);
