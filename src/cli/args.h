/* args.h - parses a verb's command line by the verb's table. Single-threaded, like all of
 * src/cli. */
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

/* For a wrong command line: an ERR_INVALID that makes moat exit with EXIT_USAGE. Returns -1. */
PRINTF_LIKE(2, 3) int args_fail(struct err *e, const char *fmt, ...);
bool args_failed(const struct err *e);

/* argv begins after the verb. Its strings are borrowed. */
int args_parse(const struct cmd *cmd, char **argv, struct args *ret, struct err *e);
/* Whether a command line, even a wrong one, has --json. cmd NULL: the verb is not known. */
bool args_has_json(const struct cmd *cmd, char **argv);
void args_free(struct args *a);
#define auto_args __attribute__((cleanup(args_free)))

/* name must be in the verb's table or a common option; anything else aborts. */
bool args_has(const struct args *a, const char *name);
const char *args_get(const struct args *a, const char *name); /* the last one given; NULL: none */
/* The next value of an option that may be repeated: start with *at 0; NULL after the last. */
const char *args_each(const struct args *a, const char *name, unsigned *at);

/* Fails if an operand is not UTF-8, which cannot be sent to the daemon. */
int args_need_utf8(const struct args *a, struct err *e);

/* These leave *ret as it is when the option is not given. */
int args_seconds(const struct args *a, const char *name, double *ret, struct err *e);
int args_number(const struct args *a, const char *name, uint64_t max, uint64_t *ret, struct err *e);
/* "1366x768" as [1366, 768]. */
int args_size(const struct args *a, const char *name, json_t **ret, struct err *e);
/* A plain number is in MB; K, M, G and T, with B or iB behind, say otherwise: all of 1024. */
int args_megabytes(
	const struct args *a, const char *name, uint64_t max, uint64_t *ret, struct err *e);
/* Adds each NAME=VALUE of an option to a JSON object. If an option has no '=': with from_env the
 * value comes from the environment, else it is an error. */
int args_pairs(const struct args *a, const char *name, bool from_env, json_t *into, struct err *e);
