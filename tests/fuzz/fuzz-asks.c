/*
 * fuzz-asks.c - what a DNS server that guests have taken over can say to those that it asks, and
 * what it can leave in the memory that others read. The input is a message, or that memory; the
 * first byte says which.
 */
#include <stdlib.h>
#include <string.h>

#include "net/dns/asks.h"
#include "net/dns/refusals.h"
#include "util/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ZONES = 4 };

static void demand(bool holds)
{
	if (!holds)
		abort();
}

static void check_record(struct bytes in)
{
	static struct refusals r;
	auto_json json_t *list = json_array();
	char *text;

	/* A short input is repeated, so that all entries are the input's. */
	for (size_t at = 0; in.len && at < sizeof(r); at += in.len)
		memcpy((uint8_t *)&r + at, in.p, at + in.len > sizeof(r) ? sizeof(r) - at : in.len);
	demand(refusals_list(&r, "lan", list) == 0 && json_array_size(list) <= REFUSALS_MAX + 1);
	text = json_dumps(list, 0);
	demand(text != NULL);
	free(text);
	refusals_mend(&r);
	refusals_add(&r, "a.example", REFUSED_NAME);
	refusals_add(&r, "b.example", REFUSED_TYPE);
	demand(r.n >= 1 && r.n <= REFUSALS_MAX && r.next < REFUSALS_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes in = {data + 1, size - 1};
	static struct ask_open open;
	struct ask_socket socket;

	if (size < 1)
		return 0;
	if (data[0] & 1) {
		check_record(in);
		return 0;
	}
	if (ask_open_parse(in, ZONES, &open))
		demand(open.zone < ZONES && open.n_open <= open.n && open.n <= DNS_ADDRS_MAX &&
			ask_open_size(&open) == in.len && open.seconds >= ASK_OPEN_MIN &&
			open.seconds <= ASK_OPEN_MAX);
	if (ask_socket_parse(in, &socket))
		demand(in.len == sizeof(socket) && socket.stream <= 1);
	return 0;
}
