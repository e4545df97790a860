/*
 * holder.h - the process that owns a sandbox's network: `moat net-holder`, run below a guard.
 *
 * How it works: it is process 1 of its own pid namespace (and of a user namespace), so its end
 * takes dnsmasq and pasta along, and with them the network namespace: bridges, taps, rules,
 * sockets. It itself stays in the host's network namespace, where the way out begins, and sends
 * short-lived threads into the sandbox's for whatever has to be done there. It reads its plan from
 * a file that the daemon made, says when it is ready, and then serves requests, one message each on
 * a socket pair, with file descriptors attached to the answers.
 */
#pragma once

enum holder_fd {
	HOLDER_FD_REQUESTS = 10, /* SOCK_SEQPACKET */
	HOLDER_FD_PLAN,          /* JSON, see net.c */
	HOLDER_FD_CAPTURES,      /* and the vnet's number: the file its capture goes to, if any */
};

/* `moat net-holder -name STAMP`: the exit status. */
int holder_main(int argc, char **argv);
