/*
 * outage.h - a server that is away, because it restarts or its network is down: calls wait for it,
 * up to a limit that counts from when it went away, whichever calls noticed. For the API client's
 * own files. Any thread.
 */
#pragma once

#include "driver/proxmox/api/exchange.h"

struct outage_wait {      /* of one call; begins with began_ns, and is {0} otherwise */
	int64_t began_ns; /* when it was made, or last answered */
	int64_t since_ns; /* its first failure; 0: none */
	unsigned tries;
	bool said;
};

/* Whether the server was away when a call failed, and the call may be made again. twice: also if
 * the server may have done what the call asked for. */
bool pve_outage_is(const struct err *e, bool twice);
/* Called after each such failure. True: some time has passed, try again. brief: gives up after a
 * second or two, and what has taken longer is not tried again. */
bool pve_outage_wait(struct pve_api *api, const struct op *op, struct outage_wait *w, bool brief,
	const struct err *why);
/* The server has answered. */
void pve_outage_over(struct pve_api *api, const struct op *op, struct outage_wait *w);
/* How many seconds of silence are too much for an answer. */
double pve_outage_silence(struct pve_api *api);
/* Fails if the server has been given up, since the daemon ends. */
int pve_outage_check(struct pve_api *api, struct err *e);
