/*
 * api.h - the API of one Proxmox VE server: requests, tasks, uploads. Knows nothing of sandboxes.
 *
 * Thread contract: any number of threads may use one struct pve_api at once. Connections are kept
 * and shared; a ticket is fetched, renewed and fetched again after a 401 behind the scenes.
 *
 * Errors carry the server's own message; no password, ticket or token is ever part of one. e->sys
 * is the HTTP status, PVE_NOT_SENT if the server cannot have seen the request, or PVE_NO_ANSWER if
 * it may have:
 *
 *   ERR_UNAVAILABLE  no connection, connection lost, 502..504, 595..599
 *   ERR_PERMISSION   401 (a fresh login does not help), 403
 *   ERR_INVALID      400; the message lists the fields that the server refused
 *   ERR_NOT_FOUND    404; 500 about a VM, volume, or whatever else does not exist
 *   ERR_BACKEND      any other status
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>

#include "util/buf.h"
#include "util/thread/op.h"

enum { PVE_NOT_SENT = -1, PVE_NO_ANSWER = -2 };

/* How to reach a server; strings are copied by pve_api_new. */
struct pve_access {
	const char *host; /* name or address, without port */
	unsigned port;
	const char *user, *realm; /* "root", "pam" */
	const char *password;     /* or token */
	const char *token;        /* "id=secret", or whole: "user@realm!id=secret" */
	bool verify_tls;
	const char *fingerprint; /* SHA-256 of the certificate, "AA:BB:..."; instead of verifying */
	const char *const *headers; /* "Name: value", NULL at the end; may be NULL */
	double outage_s;            /* how long calls wait for a server that is away */
};

struct pve_api;

/* Does not connect yet. */
int pve_api_new(const struct pve_access *access, struct pve_api **ret, struct err *e);
void pve_api_free(struct pve_api *api); /* nobody may be using it; NULL is fine */
/* For how many more seconds calls would wait for the server; 0 or less: it has been away for too
 * long. */
double pve_api_patience(struct pve_api *api);
/* The daemon ends: from now on a server that is away is given up within seconds. */
void pve_api_hurry(struct pve_api *api);

/*
 * One request. path is below /api2/json and begins with '/'; its variable parts have been through
 * pve_path if need be. params is an object or NULL: strings, integers, booleans (as 0 and 1), and
 * arrays of them (the name repeated); null members are left out. GET and DELETE send them in the
 * query, the others as a form.
 *
 * *ret becomes the answer's "data" (never NULL: JSON null if there is none); ret may be NULL.
 *
 * flags say when the request is tried again, within op. In any case it waits for a server that is
 * away and cannot have seen the request (outage.h), and says so in op's progress. PVE_TWICE: it may
 * safely run twice, so when the connection is lost or the server is out of order for a moment; a
 * GET always is. PVE_STUBBORN: also after any other 5xx, for removals; a GET always is, except for
 * the guest agent's. PVE_PATIENT: for a minute and a half while the server is busy (pve_says_busy),
 * for requests that leave nothing behind when they fail. PVE_BRIEF: a server that is away is given
 * up after a second or two, one that does not say a word after ten.
 */
enum { PVE_TWICE = 1, PVE_STUBBORN = 2, PVE_PATIENT = 4, PVE_BRIEF = 8 };
int pve_call(struct pve_api *api, const struct op *op, const char *method, const char *path,
	const json_t *params, unsigned flags, json_t **ret, struct err *e);

/* What PVE_PATIENT does, for calls that are put together of several: whether to try again after a
 * failure, because the flags have it and the server was busy. Some time has passed since then.
 * budget: of all tries. */
bool pve_wait_busy(const struct op *budget, unsigned flags, const struct err *e);
#define PVE_BUSY_SECONDS 90.0

/* The path, each %s of fmt percent-encoded where a URL needs it; %s and %u only. */
PRINTF_LIKE(3, 4) int pve_path(char **ret, struct err *e, const char *fmt, ...);

/* pve_call for a path that is put together as pve_path does it; params is used up, and may be
 * NULL. */
PRINTF_LIKE(8, 9)
int pve_do(struct pve_api *api, const struct op *op, const char *method, json_t *params,
	unsigned flags, json_t **ret, struct err *e, const char *fmt, ...);

/* How many requests have been sent, logins included; for tests and benches. */
uint64_t pve_api_requests(const struct pve_api *api);

/*
 * A connection for the caller alone, for a websocket; TLS is checked as for every other request.
 * The caller speaks HTTP on it (conn.h): "GET <path> HTTP/1.1\r\n", pve_api_headers, its own lines,
 * an empty line.
 */
struct pve_conn;
int pve_conn_open(struct pve_api *api, const struct op *op, struct pve_conn **ret, struct err *e);

/*
 * Appends the header lines that every request needs: Host, Cookie or Authorization, CSRF token for
 * anything but GET, extra headers. Logs in first if need be. Secrets: wipe the buffer after use.
 */
int pve_api_headers(
	struct pve_api *api, const struct op *op, bool get, struct buf *ret, struct err *e);
