/* fuzz-facts.c - what a server in a VM says of itself: a shell must be able to read it. */
#include <stdlib.h>
#include <string.h>

#include "cli/server/facts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *text, size_t room)
{
	size_t n = strnlen(text, room);

	if (n == 0 || n == room || strcspn(text, " \t\r\n'\"`$\\;&|<>(){}*?~#!=%") != n)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct server_facts facts;
	struct err e;

	if (facts_parse((struct bytes){data, size}, &facts, &e) < 0)
		return 0;
	check(facts.node, sizeof(facts.node));
	check(facts.fingerprint, sizeof(facts.fingerprint));
	check(facts.password, sizeof(facts.password));
	return 0;
}
