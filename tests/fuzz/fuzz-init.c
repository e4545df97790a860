/* fuzz-init.c - what process 1 of a container's VM reads: DHCP messages, and records of services.
 * The first byte chooses. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "moat-init/dhcp/packet.h"
#include "moat-init/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* With the number and the address that the message itself has, so that it is read on. */
static void try_dhcp(const uint8_t *p, size_t len)
{
	uint32_t xid = 0;
	uint8_t mac[6] = {0};
	struct dhcp_answer a;

	if (len > 34) {
		xid = (uint32_t)p[4] << 24 | (uint32_t)p[5] << 16 | (uint32_t)p[6] << 8 | p[7];
		memcpy(mac, p + 28, sizeof(mac));
	}
	if (dhcp_read(p, len, xid, mac, &a) &&
		(a.n_dns > DHCP_DNS_MAX || strlen(a.domain) >= DHCP_DOMAIN_MAX ||
			strpbrk(a.domain, "\n \t") || a.type > DHCP_NAK))
		abort();
}

/* Every string of it is in the record, and ends there. */
static void try_record(const uint8_t *p, size_t len)
{
	char *copy = malloc(len ? len : 1); /* not a byte more: the sanitizer would tell */
	struct service s;
	const char *what;
	size_t bytes = 0;

	if (!copy)
		return;
	memcpy(copy, p, len);
	if (record_parse((struct record){copy, len}, &s, &what) == 0) {
		for (char **arg = s.argv; *arg; arg++)
			bytes += strlen(*arg) + 1;
		for (char **env = s.env; *env; env++)
			bytes += strlen(*env) + 1;
		if (bytes > len || s.n_limits > SERVICE_LIMITS_MAX || s.cwd[0] != '/')
			abort();
		service_free(&s);
	}
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	if (data[0] & 1)
		try_dhcp(data + 1, size - 1);
	else
		try_record(data + 1, size - 1);
	return 0;
}
