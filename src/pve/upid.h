/* upid.h - the name of a task: "UPID:node:...". Pure. */
#pragma once

#include "util/err.h"

enum { UPID_NODE_MAX = 63 };
#define UPID_NODE_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-."

/* The node that runs a task. NULL and rubbish are ERR_BACKEND. */
int upid_node(const char *upid, char ret[UPID_NODE_MAX + 1], struct err *e);
