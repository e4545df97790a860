/*
 * server.h - the process that answers guests' DNS: `moat-helper net-dns STAMP`, which a network's
 * holder starts.
 *
 * How it works: it opens its sockets in the sandbox's network namespace, and then gives up all
 * rights. From there on it works on these sockets, and asks others for the little more that it
 * needs (net/dns/asks.h). It says when it is ready, by a message of one byte to the holder.
 */
#pragma once

enum dns_fd {
	DNS_FD_ZONES = 3, /* JSON: {"zones": the plan's "dns"} */
	DNS_FD_REFUSALS,  /* memory: a struct refusals for each zone */
	DNS_FD_HOLDER,    /* SOCK_SEQPACKET */
	DNS_FD_OUTSIDE,   /* SOCK_SEQPACKET; not there if nothing leads out */
};

/* Returns the exit status. The stamp is only for others to see. */
int dns_server_main(int argc, char **argv);
