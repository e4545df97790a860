/*
 * moat-helper.c - the program moat-helper: a guard, a holder of networks, or its DNS. All start
 * with every sandbox, and loading the libraries of the other programs would take far longer than
 * their own start.
 */
#include <stdio.h>
#include <string.h>

#include "net/dns/server/server.h"
#include "net/holder/dhcp.h"
#include "net/holder/holder.h"
#include "util/system/guard.h"

int main(int argc, char **argv)
{
	const char *part = argc > 1 ? argv[1] : "";

	if (strcmp(part, "guard") == 0)
		return guard_main(argc - 1, argv + 1);
	if (strcmp(part, "net-holder") == 0)
		return holder_main(argc - 1, argv + 1);
	if (strcmp(part, "net-dns") == 0)
		return dns_server_main(argc - 1, argv + 1);
	if (strcmp(part, "net-dhcp") == 0)
		return dhcp_main(argc - 1, argv + 1);
	fprintf(stderr, "moat-helper is internal to moat\n");
	return 2;
}
