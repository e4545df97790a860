/* api-parts.h - what the files of the API client share; nobody else's business. */
#pragma once

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>

#include "pve/api.h"
#include "pve/conn.h"
#include "pve/http.h"
#include "util/turn.h"

struct pve_api {
	char *url, *host; /* host: with port, as in the Host header */
	char *user;       /* user@realm */
	char *password, *token;
	char *headers; /* complete lines */
	bool verify, pinned;
	char fingerprint[65];
	struct turn login; /* one thread logs in, the others wait for it */
	_Atomic uint64_t requests;

	pthread_mutex_t mu;
	char *ticket, *csrf;
	int64_t ticket_ns; /* when it was fetched; says which ticket it is, too */
	struct pve_conn *idle;
	unsigned n_idle;
};

struct pve_request {
	struct bytes head; /* with the body, if that is small */
	/* Sends the rest; may be NULL. */
	int (*body)(void *arg, struct pve_conn *c, const struct op *op, struct err *e);
	void *arg;
};

/* One request and its answer, whatever its status. e->sys: PVE_NOT_SENT or PVE_NO_ANSWER. */
int pve_exchange(struct pve_api *api, const struct op *op, const struct pve_request *rq,
	struct http_answer *a, struct err *e);
/* pve_api_headers; refused: what *ret_used was when the server answered 401, else 0. */
int pve_headers(struct pve_api *api, const struct op *op, bool get, uint64_t refused,
	struct buf *ret, uint64_t *ret_used, struct err *e);
/* Whether to try again: it may be, the server was busy, and some time has passed since. budget: of
 * all tries. */
bool pve_wait_busy(const struct op *budget, unsigned flags, const struct err *e);
#define PVE_BUSY_SECONDS 90.0
PRINTF_LIKE(8, 0)
int pve_vdo(struct pve_api *api, const struct op *op, const char *method, json_t *params,
	unsigned flags, json_t **ret, struct err *e, const char *fmt, va_list ap);
/* Overwrites and frees what held a secret. */
void pve_wipe(struct buf *b);
