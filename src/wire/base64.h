/* base64.h - bytes as text for the guest agent, which speaks JSON. Pure. */
#pragma once

#include "util/base64-raw.h"
#include "util/buf.h"

/* NUL-terminated; out has room for base64_len(in.len) + 1. */
void base64_encode(struct bytes in, char *out);
/* Appends to out; false (and out unchanged) if it is not proper base64, or out of memory. */
bool base64_decode(const char *text, size_t len, struct buf *out);
