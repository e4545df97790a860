/* qga-parse.h - parses answers of the guest agent. Pure: the guest is hostile. */
#pragma once

#include <stdbool.h>

#include "util/buf.h"
#include "util/json.h"

struct qga_exit {
	int code;   /* exit status; 128 + n for signal n */
	int signal; /* 0: it exited */
	struct buf out, err;
	bool out_cut, err_cut; /* the agent kept only the beginning of the output */
};
void qga_exit_free(struct qga_exit *x);
/* The last line of the program's stderr (or stdout), made printable. */
void qga_exit_message(const struct qga_exit *x, char *out, size_t size);
#define auto_qga_exit __attribute__((cleanup(qga_exit_free)))

/*
 * Parses one answer, without its newline; *ret is the value of "return". ERR_BACKEND: the agent
 * refused; ERR_UNSUPPORTED: it does not know or allow the command; ERR_UNAVAILABLE: this is not an
 * answer.
 */
int qga_parse_reply(struct bytes line, json_t **ret, struct err *e);

/* Looks for the delimited answer to guest-sync-delimited. Returns the offset behind it, or 0; then
 * the first *ret_drop bytes are not needed any more. */
size_t qga_find_sync(struct bytes in, uint64_t id, size_t *ret_drop);

/* Sets code and signal from the value of guest-exec-status. The agent of Windows gives the status
 * of a program that crashed (0xC0000005) as its signal: that becomes the code. */
void qga_set_end(struct qga_exit *x, const json_t *value);
/* Parses the value of guest-exec-status: returns 1 and *ret if the process has ended, 0 if
 * it runs. */
int qga_parse_status(json_t *value, size_t output_max, struct qga_exit *ret, struct err *e);

/*
 * What an agent says when it refuses something, told apart by meaning: its errors have a text and
 * no code. The texts are QEMU's, GLib's and the guest system's.
 */

/* Whether there is no such program: "Failed to execute child process "/none" (No such file or
 * directory)". */
bool qga_says_no_program(const struct err *e);

/* Whether arguments and environment are too large for the guest's kernel: "Failed to execute child
 * process "/bin/sh" (Argument list too long)". */
bool qga_says_too_long(const struct err *e);

/*
 * The errno that an error about a file stands for; 0: unknown. Knows messages of GLib ("failed to
 * open file 'C:\x' (mode: 'r'): No such file or directory") and of Windows ("The system cannot find
 * the path specified.", "Access is denied.").
 */
int qga_says_errno(const struct err *e);
