/* answer.h - what an answer of the API means. Pure: the bytes come from the network. */
#pragma once

#include <stdbool.h>

#include <jansson.h>

#include "pve/http.h"

/*
 * The "data" member of a successful answer; of any other, the error that it is: see api.h for the
 * kinds. An error has e->sys set to the status.
 */
int answer_read(const struct http_answer *a, json_t **ret, struct err *e);

/* Statuses of a server, or of a proxy before it, that is out of order for the moment. */
static inline bool answer_is_transient(int status)
{
	return (status >= 502 && status <= 504) || (status >= 595 && status <= 599);
}
