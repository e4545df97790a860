/* qga-parse.h - what the guest agent says. Pure: bytes of a hostile guest in, values out. */
#pragma once

#include "util/buf.h"
#include "util/json.h"

struct qga_exit {
	int code;   /* exit status; 128 + n for signal n */
	int signal; /* or 0 */
	struct buf out, err;
	bool out_cut, err_cut; /* the agent kept only the beginning */
};
void qga_exit_free(struct qga_exit *x);
/* The last line of what it had to say, safe to print. */
void qga_exit_words(const struct qga_exit *x, char *out, size_t size);
#define auto_qga_exit __attribute__((cleanup(qga_exit_free)))

/*
 * One answer without its newline; *ret is the value of "return". What the agent itself refuses is
 * ERR_BACKEND, or ERR_UNSUPPORTED if it does not know or allow the command; anything that is not an
 * answer is ERR_UNAVAILABLE.
 */
int qga_parse_reply(struct bytes line, json_t **ret, struct err *e);

/*
 * Looks for the delimited answer to guest-sync-delimited. Returns the offset just behind it, or 0;
 * then *ret_drop bytes at the beginning are of no further use.
 */
size_t qga_find_sync(struct bytes in, uint64_t id, size_t *ret_drop);

/* Sets code and signal from the value of guest-exec-status. The agent of Windows calls the status
 * of a program that crashed (0xC0000005) its signal: that becomes its code. */
void qga_set_end(struct qga_exit *x, const json_t *value);
/* The value of guest-exec-status: 1 and *ret if the process has ended, 0 if it runs. */
int qga_parse_status(json_t *value, size_t output_max, struct qga_exit *ret, struct err *e);
