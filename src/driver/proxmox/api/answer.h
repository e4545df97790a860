/* answer.h - what an answer of the API means. Pure: the bytes come from the network. */
#pragma once

#include <stdbool.h>

#include <jansson.h>

#include "driver/proxmox/api/http.h"

/*
 * *ret: the "data" member of a successful answer. Any other answer becomes an error: see api.h for
 * the kinds; e->sys is the status.
 */
int answer_read(const struct http_answer *a, json_t **ret, struct err *e);

/* Whether the status says that the server, or a proxy in front of it, is out of order for the
 * moment. */
static inline bool answer_is_transient(int status)
{
	return (status >= 502 && status <= 504) || (status >= 595 && status <= 599);
}
