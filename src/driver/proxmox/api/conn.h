/*
 * conn.h - connections to a server: TLS, and bytes both ways. A connection belongs to one thread at
 * a time.
 */
#pragma once

#include <stdatomic.h>
#include <sys/types.h>

#include "driver/proxmox/api/api.h"

/* Once, before the first thread. */
int pve_global_init(struct err *e);

struct conn_target {
	const char *url; /* "https://host:port" */
	bool verify;
	const char *fingerprint;    /* lower-case hex without colons, or NULL */
	const atomic_bool *hurried; /* once true, connecting takes seconds at most; may be NULL */
};

struct pve_conn {
	void *easy, *multi; /* libcurl's */
	int fd;
	/* For the owner of kept connections (exchange.c). */
	unsigned requests;
	int64_t idle_since_ns;
	struct pve_conn *next;
};

/* Connects, with TLS, and checks the certificate before a single byte of ours is sent. */
int conn_open(
	const struct conn_target *t, const struct op *op, struct pve_conn **ret, struct err *e);
void pve_conn_close(struct pve_conn *c); /* NULL is fine */
/* For poll: POLLIN. Bytes may wait inside libcurl, so first call pve_conn_recv_now until it
 * returns 0. */
int pve_conn_fd(const struct pve_conn *c);
int pve_conn_send(struct pve_conn *c, const struct op *op, const void *p, size_t n, struct err *e);
/* Appends at most max bytes to b and returns their count; 0: there are none at the moment; -1:
 * an error, or the end. */
ssize_t pve_conn_recv_now(struct pve_conn *c, struct buf *b, size_t max, struct err *e);
/* Likewise, but waits for at least one byte. */
ssize_t pve_conn_recv(
	struct pve_conn *c, const struct op *op, struct buf *b, size_t max, struct err *e);

/* SHA-256 of a certificate in PEM, lower-case hex; "" if it is none. Pure. */
void conn_fingerprint(const char *pem, char ret_hex[65]);
/* "AA:BB:..." or hex to lower-case hex; ERR_INVALID if it is no SHA-256. Pure. */
int conn_read_fingerprint(const char *text, char ret_hex[65], struct err *e);
