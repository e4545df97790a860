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
 *   ERR_NOT_FOUND    404; 500 about a VM, volume, or other thing that does not exist
 *   ERR_BACKEND      any other status
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>

#include "util/buf.h"
#include "util/op.h"

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
};

struct pve_api;

/* Once, before the first thread. */
int pve_global_init(struct err *e);

/* Does not connect. */
int pve_api_new(const struct pve_access *access, struct pve_api **ret, struct err *e);
void pve_api_free(struct pve_api *api); /* nobody may be using it; NULL is fine */

/*
 * One request. path is below /api2/json and begins with '/'; its variable parts have been through
 * pve_path if need be. params is an object or NULL: strings, integers, booleans (as 0 and 1), and
 * arrays of them (the name repeated); null members are left out. GET and DELETE send them in the
 * query, the others as a form.
 *
 * *ret becomes the answer's "data" (never NULL: JSON null if there is none); ret may be NULL.
 *
 * With PVE_TWICE the request may safely run twice: it is tried again, within op, when the
 * connection is lost or the server is out of order for a moment. GET always is. PVE_STUBBORN: also
 * after any other 5xx, for removals; GET always, but for the guest agent's. PVE_PATIENT: for a
 * minute and a half while the server is busy (pve_was_busy); of what a failure leaves nothing of.
 */
enum { PVE_TWICE = 1, PVE_STUBBORN = 2, PVE_PATIENT = 4 };
int pve_call(struct pve_api *api, const struct op *op, const char *method, const char *path,
	const json_t *params, unsigned flags, json_t **ret, struct err *e);

/* Whether a call or a task failed because it waited in vain for a lock of a storage or of the
 * cluster, or for a command about a storage: others use those too, so that passes. */
bool pve_was_busy(const struct err *e);

/* The path, each %s of fmt percent-encoded where a URL needs it; %s and %u only. */
PRINTF_LIKE(3, 4) int pve_path(char **ret, struct err *e, const char *fmt, ...);

/* pve_call for a path that is put together here; params is used up, NULL included. */
PRINTF_LIKE(8, 9)
int pve_do(struct pve_api *api, const struct op *op, const char *method, json_t *params,
	unsigned flags, json_t **ret, struct err *e, const char *fmt, ...);

/*
 * Waits for the end of a task, with polls that begin quick and back off. ERR_BACKEND with the
 * task's own words when it failed. upid: a string, as the call that started the task answered.
 * *ret_warned (may be NULL): it ended well, but not all of it was done.
 */
int pve_task_wait(struct pve_api *api, const struct op *op, const json_t *upid, bool *ret_warned,
	struct err *e);
/* pve_do, then pve_task_wait for the task that it started. */
PRINTF_LIKE(7, 8)
int pve_run(struct pve_api *api, const struct op *op, const char *method, json_t *params,
	unsigned flags, struct err *e, const char *fmt, ...);

struct pve_upload {
	const char *node, *storage;
	const char *content; /* "iso", "import" */
	const char *name;    /* of the file on the storage */
	int fd;              /* read from its beginning */
	uint64_t size;
	const char *sha256; /* hex; NULL: not checked by the server */
	const char *text;   /* for op_progress; NULL: none */
};
/* Uploads a file and waits until the server has it in place. */
int pve_upload(
	struct pve_api *api, const struct op *op, const struct pve_upload *up, struct err *e);

/* Deletes a volume ("local:iso/x.iso") and waits until it is gone; fine if there is none. */
int pve_volume_delete(struct pve_api *api, const struct op *op, const char *node, const char *volid,
	struct err *e);

/* How many requests have been sent, logins included; for tests and benches. */
uint64_t pve_api_requests(const struct pve_api *api);

/*
 * A connection of one's own, for a websocket: TLS checked as for every other request. The caller
 * speaks HTTP on it: "GET <path> HTTP/1.1\r\n", pve_api_headers, its own lines, an empty line.
 */
struct pve_conn;
int pve_conn_open(struct pve_api *api, const struct op *op, struct pve_conn **ret, struct err *e);
void pve_conn_close(struct pve_conn *c); /* NULL is fine */
/* For poll: POLLIN. Bytes may wait inside, so call pve_conn_recv_now until it says 0 first. */
int pve_conn_fd(const struct pve_conn *c);
int pve_conn_send(struct pve_conn *c, const struct op *op, const void *p, size_t n, struct err *e);
/* At most max bytes appended to b: their count; 0: nothing at the moment; -1: also at the end. */
ssize_t pve_conn_recv_now(struct pve_conn *c, struct buf *b, size_t max, struct err *e);
/* The same, but waits for at least one byte. */
ssize_t pve_conn_recv(
	struct pve_conn *c, const struct op *op, struct buf *b, size_t max, struct err *e);

/*
 * Appends the header lines that every request needs: Host, Cookie or Authorization, CSRF token for
 * anything but GET, extra headers. Logs in first if need be. Secrets: wipe the buffer after use.
 */
int pve_api_headers(
	struct pve_api *api, const struct op *op, bool get, struct buf *ret, struct err *e);
