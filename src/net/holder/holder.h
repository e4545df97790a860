/*
 * holder.h - the process that owns a sandbox's networks: `moat-helper net-holder`, run below a
 * guard.
 *
 * How it works: the holder is process 1 of its own pid namespace (and of a user namespace), so its
 * end takes dnsmasq and pasta along, and with them the network namespace: bridges, taps, rules,
 * sockets. The holder itself stays in the host's network namespace, where egress begins, and starts
 * short-lived threads in the sandbox's for whatever has to be done there. It reads its plan from a
 * file that the daemon made, says when it is ready, and then serves requests, one message each on a
 * socket pair, with file descriptors attached to the answers.
 */
#pragma once

enum holder_fd {
	HOLDER_FD_REQUESTS = 10, /* SOCK_SEQPACKET */
	HOLDER_FD_PLAN,          /* JSON, see net/plan/json.h */
	HOLDER_FD_CAPTURES, /* plus the vnet's number: the file for the vnet's capture, if it has
			       one */
};

/* `moat-helper net-holder -name STAMP`; returns the exit status. The stamp lets others find the
 * process. */
int holder_main(int argc, char **argv);
