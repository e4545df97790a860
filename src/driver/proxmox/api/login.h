/*
 * login.h - tickets, and the header lines that show them. For the API client's own files. Any
 * thread: one logs in, the others wait for it.
 */
#pragma once

#include "driver/proxmox/api/exchange.h"

/* What pve_api_headers (api.h) does. *ret_used: which ticket it is. refused: what *ret_used was
 * when the server answered 401, else 0. */
int pve_headers(struct pve_api *api, const struct op *op, bool get, uint64_t refused,
	struct buf *ret, uint64_t *ret_used, struct err *e);

/* Overwrites and frees what held a secret. */
void pve_wipe(struct buf *b);
void pve_wipe_str(char *s); /* NULL is fine */
