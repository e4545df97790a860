#include "net/plan/special-addresses.h"

#include "util/auto.h"

const struct ipv4_net net_forbidden[] = {
	{0x00000000, 8},  /* "this network" */
	{0x646464c8, 32}, /* 100.100.100.200: metadata at Alibaba */
	{0x7f000000, 8},  /* loopback */
	{0xa83f8110, 32}, /* 168.63.129.16: Azure's host */
	{0xa9fe0000, 16}, /* link-local, and metadata nearly everywhere */
	{0xc0000000, 24}, /* protocol assignments; the link to pasta is in there */
	{0xc0586300, 24}, /* 6to4 relays */
	{0xe0000000, 3},  /* multicast, reserved, broadcast */
};
const size_t net_n_forbidden = ARRAY_LEN(net_forbidden);

const struct ipv4_net net_private[] = {
	{0x0a000000, 8}, {0x64400000, 10}, /* 100.64/10: carriers' address translation */
	{0xac100000, 12}, {0xc0a80000, 16},
	{0xc6120000, 15}, /* 198.18/15: measurements in laboratories */
};
const size_t net_n_private = ARRAY_LEN(net_private);

bool net_is_forbidden(uint32_t addr)
{
	for (size_t i = 0; i < net_n_forbidden; i++)
		if (ipv4_net_has(net_forbidden[i], addr))
			return true;
	return false;
}

bool net_is_private(struct ipv4_net net)
{
	for (size_t i = 0; i < net_n_private; i++)
		if (net.prefix >= net_private[i].prefix && ipv4_net_has(net_private[i], net.addr))
			return true;
	return false;
}
