#include "net/dns/asks.h"

#include <string.h>

bool ask_open_parse(struct bytes in, unsigned n_zones, struct ask_open *ret)
{
	const size_t head = offsetof(struct ask_open, addrs);

	if (in.len < head || in.len > sizeof(*ret))
		return false;
	memcpy(ret, in.p, in.len);
	return ret->n <= DNS_ADDRS_MAX && in.len == ask_open_size(ret) && ret->n_open <= ret->n &&
	       ret->zone < n_zones && ret->seconds >= ASK_OPEN_MIN && ret->seconds <= ASK_OPEN_MAX;
}

bool ask_socket_parse(struct bytes in, struct ask_socket *ret)
{
	if (in.len != sizeof(*ret))
		return false;
	memcpy(ret, in.p, in.len);
	return ret->stream <= 1;
}
