/*
 * ssh.h - moat-ssh, a process that speaks SSH with one guest. What the guest's SSH server does to
 * libssh it does to a process of its own, which has no rights and can be killed.
 *
 * How it works: it is given the connected socket, a stream socket for the runner's bytes, the
 * runners themselves, and a socket for orders, on which it gets one message (util/system/msg.h)
 * after the other: log in; start the runner. Each is answered, or the error is told and it leaves.
 * From then on it moves bytes between the runner's channel and its stream socket, and likewise
 * between other channels and sockets, for connections to ports of the guest: they come with an
 * order to dial, and are answered by a byte on themselves.
 *
 *     {"log_in": {"host": s, "port": i, "user": s, "host_key": s, "keys": [{"name": s, "text":
 * s}]}}
 *         -> {"host_key": s}
 *     {"start": true}
 *         -> {"progress": s}... {"as_root": b}
 *     {"dial": {"host": s, "port": i}}, with the socket
 *     {"error": {"kind": s, "sys": i, "message": s}} instead of an answer
 */
#pragma once

enum ssh_fd {
	SSH_FD_ORDERS = 10, /* SOCK_SEQPACKET */
	SSH_FD_GUEST,       /* connected to the guest's SSH server */
	SSH_FD_STREAM,      /* the runner's bytes */
	SSH_FD_RUNNERS,     /* as many as RUNNERS: moat-guest, open for reading */
};

enum { SSH_HOST_KEY_MAX = 128, SSH_DIALS_MAX = 256 };

/* The first byte on a socket that came with an order to dial. */
enum ssh_answer {
	SSH_IS_OPEN = 1,
	SSH_REFUSED,    /* nobody listens there */
	SSH_PROHIBITED, /* the SSH server does not let us */
	SSH_TOO_MANY,   /* there are SSH_DIALS_MAX */
};

/* The program: its exit status. */
int ssh_main(void);
