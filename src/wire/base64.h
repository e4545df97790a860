/* base64.h - base64 with struct bytes and struct buf, for the JSON of the guest agent. Pure. */
#pragma once

#include "wire/base64-raw.h"
#include "util/buf.h"

/* NUL-terminated; out has room for base64_len(in.len) + 1. */
void base64_encode(struct bytes in, char *out);
/* Appends to out. false, and out unchanged: not proper base64, or out of memory. */
bool base64_decode(const char *text, size_t len, struct buf *out);
