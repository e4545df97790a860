/*
 * exchange.h - one request and its answer, on a connection that is kept for the next. For the API
 * client's own files (login.h, api.h, upload.h). Any thread.
 */
#pragma once

#include <stdatomic.h>

#include "driver/proxmox/api/conn.h"
#include "driver/proxmox/api/http.h"
#include "util/thread/lock.h"
#include "util/thread/turn.h"

struct pve_api {
	char *url, *host; /* host: with port, as in the Host header */
	char *user;       /* user@realm */
	char *password, *token;
	char *headers; /* complete lines */
	bool verify, pinned;
	char fingerprint[65];
	struct turn login; /* one thread logs in, the others wait for it */
	_Atomic uint64_t requests;
	atomic_bool hurried; /* no wait for the network may take longer than seconds */

	struct lock mu;
	char *ticket, *csrf;
	int64_t ticket_ns; /* when it was fetched; tells tickets apart, too */
	struct pve_conn *idle;
	unsigned n_idle;
	/* outage.h */
	double outage_s;
	int64_t away_ns, failed_ns; /* the first and the last failure of an outage; 0: none */
	int64_t heard_ns;           /* the last answer; 0: none */
	int64_t ending_ns;          /* since when the daemon ends; 0: it does not */
	bool given_up;
};

struct pve_request {
	struct bytes head; /* with the body, if that is small */
	/* Sends the rest of the request; NULL: there is none. */
	int (*body)(void *arg, struct pve_conn *c, const struct op *op, struct err *e);
	void *arg;
};

/* One request and its answer, whatever its status. e->sys: PVE_NOT_SENT or PVE_NO_ANSWER. */
int pve_exchange(struct pve_api *api, const struct op *op, const struct pve_request *rq,
	struct http_answer *a, struct err *e);
