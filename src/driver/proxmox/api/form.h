/* form.h - parameters as the API takes them: percent-encoded, in a query or a form. Pure. */
#pragma once

#include <stdarg.h>

#include <jansson.h>

#include "util/buf.h"

/* Appends text with everything but letters, digits and "-._~" as %XX. */
int form_escape(struct buf *b, const char *text, size_t len, struct err *e);
/* Appends "a=1&b=2"; nothing for NULL. What params may hold: see pve_call. */
int form_encode(struct buf *b, const json_t *params, struct err *e);
/* See pve_path. */
PRINTF_LIKE(2, 0) int form_vpath(char **ret, const char *fmt, va_list ap, struct err *e);
