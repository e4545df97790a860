/* cli.h - what a verb works with: its arguments, the terminal, the connection. */
#pragma once

#include "cli/args.h"
#include "cli/client.h"
#include "cli/progress.h"
#include "cli/screen.h"
#include "util/json.h"

struct cli {
	const struct args *args;
	struct screen screen;
	struct progress progress;
	struct paths paths;
	struct client *client; /* NULL until cli_connect */
	bool json, quiet;
	serve_fn *serve;
};

/* Connects once; flags as in client_open. */
int cli_connect(struct cli *cli, unsigned flags, struct err *e);
/* Runs a call with the daemon's progress shown; connects, and starts a daemon, if need be. */
int cli_run(struct cli *cli, struct call *call, json_t **ret, struct err *e);
/* The short form: operation and arguments (taken, even on failure; NULL is out of memory). */
int cli_ask(struct cli *cli, const char *op, json_t *args, json_t **ret, struct err *e);

/* {"sandbox": operand, "vm": --vm, "user": --user} as far as the verb has them. NULL: out of
 * memory or not UTF-8, with e filled. */
json_t *cli_target(struct cli *cli, const char *sandbox, struct err *e);

/* "moat: text" on stderr; not with --quiet. For what people should know and programs need not. */
PRINTF_LIKE(2, 3) void cli_note(struct cli *cli, const char *fmt, ...);
/* "moat: what: message" on stderr, escaped. */
void cli_complain(struct cli *cli, const struct err *e);
enum exit_code cli_code_of(const struct err *e);
/* {"kind", "message"}, the member "error" of a document; NULL: out of memory. */
json_t *cli_error_json(const struct err *e);

/* Members of an answer; "" and 0 if they are missing or of another type. */
const char *get_str(const json_t *j, const char *name);
double get_num(const json_t *j, const char *name);
