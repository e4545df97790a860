/* args.h - a verb's command line, parsed by its table. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/cmd.h"

struct given {
	const struct opt *opt;
	const char *value; /* NULL for options without argument */
};

struct args {
	const struct cmd *cmd;
	struct given *given;
	unsigned n_given;
	const char **operands; /* NULL at the end */
	unsigned n_operands;
};

/* A wrong command line: ERR_INVALID that ends with EXIT_USAGE. Returns -1. */
PRINTF_LIKE(2, 3) int args_fail(struct err *e, const char *fmt, ...);
bool args_failed(const struct err *e);

/* argv begins after the verb. The strings are borrowed. */
int args_parse(const struct cmd *cmd, char **argv, struct args *ret, struct err *e);
/* Whether a command line that may be wrong has --json. cmd NULL: its verb is not known. */
bool args_ask_json(const struct cmd *cmd, char **argv);
void args_free(struct args *a);
#define auto_args __attribute__((cleanup(args_free)))

/* The names are those of the verb's table or of the common options: anything else is a bug. */
bool args_has(const struct args *a, const char *name);
const char *args_get(const struct args *a, const char *name); /* the last one; NULL: not given */
/* The values of an option that may be repeated: start with *at 0; NULL at the end. */
const char *args_each(const struct args *a, const char *name, unsigned *at);

/* For verbs whose operands are all sent to the daemon: those that are not UTF-8 cannot be. */
int args_need_utf8(const struct args *a, struct err *e);

/* These leave *ret alone when the option is not given. */
int args_seconds(const struct args *a, const char *name, double *ret, struct err *e);
int args_number(const struct args *a, const char *name, uint64_t max, uint64_t *ret, struct err *e);
/* Adds NAME=VALUE of every such option to a JSON object; without '=' the environment's value if
 * from_env, else an error. */
int args_pairs(const struct args *a, const char *name, bool from_env, json_t *into, struct err *e);
