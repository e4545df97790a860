/* cli.h - what a verb works with: its arguments, the terminal, the connection to the daemon. */
#pragma once

#include "cli/args.h"
#include "cli/client/client.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/screen.h"
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

/* Connects, unless connected already; flags as in client_open. */
int cli_connect(struct cli *cli, unsigned flags, struct err *e);
/* Makes a call and shows the daemon's progress. Connects first if necessary, and starts a
 * daemon. */
int cli_call(struct cli *cli, struct call *call, json_t **ret, struct err *e);
/* Makes a call that needs only an operation and arguments. Takes args, even on failure; NULL stands
 * for out of memory. */
int cli_request(struct cli *cli, const char *op, json_t *args, json_t **ret, struct err *e);

/* {"sandbox": sandbox, "vm": --vm, "user": --user}, the latter two if the verb has these options.
 * NULL, and e: out of memory or not UTF-8. */
json_t *cli_target(struct cli *cli, const char *sandbox, struct err *e);

/* Prints "moat: text" on stderr, unless --quiet: for people, not for programs. */
PRINTF_LIKE(2, 3) void cli_note(struct cli *cli, const char *fmt, ...);
/* Prints "moat: message" on stderr, escaped. */
void cli_print_error(struct cli *cli, const struct err *e);
enum exit_code cli_code_of(const struct err *e);
/* {"kind": ..., "message": ...}, for the member "error" of a document; NULL: out of memory. */
json_t *cli_error_json(const struct err *e);

/* Members of an answer; "" and 0 if one is missing or of another type. */
const char *get_str(const json_t *j, const char *name);
double get_num(const json_t *j, const char *name);
