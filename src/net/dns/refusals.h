/*
 * refusals.h - the record of what a vnet's DNS refused. Plain data without pointers: the DNS server
 * writes it, and the network's holder reads it in the same memory. Neither takes what it finds in
 * there for true: guests may have taken over the writer, and the writer before it. Pure.
 */
#pragma once

#include <jansson.h>
#include <time.h>

#include "net/dns/msg.h"

enum { REFUSALS_MAX = 256 };
#define REFUSED_LAST_MAX 253402300799 /* the end of the year 9999 */

enum refused_why { REFUSED_NAME, REFUSED_TYPE, REFUSED_ADDRESS, REFUSED_UNOPENED };

struct refusal {
	char name[DNS_NAME_MAX];
	uint64_t count;
	int64_t last; /* seconds since 1970 */
	uint32_t why;
};

struct refusals {
	uint32_t n, next;   /* the list is a ring: a new entry replaces the oldest */
	uint64_t all;       /* number of all refusals */
	uint64_t forgotten; /* refusals whose entry was replaced */
	struct refusal list[REFUSALS_MAX];
};

void refusals_add(struct refusals *r, const char *name, enum refused_why why);
/* Makes a record fit for use, whatever is in it. */
void refusals_mend(struct refusals *r);
/* Adds the refusals to a list of objects. If some were replaced, one object without a name counts
 * them. -1: out of memory. */
int refusals_list(const struct refusals *r, const char *vnet, json_t *list);
