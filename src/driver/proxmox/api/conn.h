/* conn.h - for the API client itself: opening connections; the rest is in api.h. */
#pragma once

#include "pve/api.h"

struct conn_target {
	const char *url; /* "https://host:port" */
	bool verify;
	const char *fingerprint; /* lower-case hex without colons, or NULL */
};

/* Connects, with TLS, and checks the certificate before a single byte of ours is sent. */
int conn_open(
	const struct conn_target *t, const struct op *op, struct pve_conn **ret, struct err *e);

/* When it was last used and how often, for the owner of kept connections. */
struct pve_conn {
	void *easy, *multi; /* libcurl's */
	int fd;
	unsigned requests;
	int64_t idle_since_ns;
	struct pve_conn *next;
};

/* SHA-256 of a certificate in PEM, lower-case hex; "" if it is none. Pure. */
void conn_fingerprint(const char *pem, char ret_hex[65]);
/* "AA:BB:..." or hex to lower-case hex; ERR_INVALID if it is no SHA-256. Pure. */
int conn_read_fingerprint(const char *text, char ret_hex[65], struct err *e);
