#include "net/holder/dhcp.h"

#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/system/confine.h"

enum {
	MEMORY_MAX = 256 << 20, /* bytes */
	LEASES_MAX = 16 << 20,  /* bytes, for at most 10000 leases */
};

/*
 * dnsmasq insists on the right to configure networks, although it need not use it here. In a user
 * namespace of its own, which has no users, it has that right over nothing: the network belongs to
 * the holder's. Where no further namespace can be had, it keeps that right.
 */
static int give_up_rights(void)
{
	static const int kept[] = {CAP_NET_ADMIN};

	(void)!unshare(CLONE_NEWUSER);
	confine_limits(MEMORY_MAX, LEASES_MAX);
	return confine_keep(kept, ARRAY_LEN(kept)) < 0 ? -1 : confine_calls(false);
}

int dhcp_main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "moat-helper net-dhcp is internal to moat\n");
		return 2;
	}
	if (give_up_rights() < 0)
		fprintf(stderr, "moat-helper net-dhcp: %s\n", strerror(errno));
	else if (execvp(argv[1], argv + 1) < 0)
		fprintf(stderr, "moat: cannot run %s: %s\n", argv[1], strerror(errno));
	_exit(127);
}
