/* cmd.h - the table of verbs: one const struct cmd each, from which parsing, help and completion
 * come. The command line is single-threaded. */
#pragma once

#include <stdbool.h>

#include "cli/terminal/exit-code.h"
#include "util/err.h"

struct cli;

struct opt {
	char letter;      /* 0: none */
	const char *name; /* without the dashes; NULL ends a table */
	const char *arg;  /* the name of its argument; NULL: it takes none */
	const char *help; /* NULL: internal, not shown anywhere */
};

/* What the operands are, for completion. */
enum operand {
	OPERAND_NONE,
	OPERAND_SANDBOX,   /* one sandbox; what follows cannot be completed */
	OPERAND_SANDBOXES, /* any number */
	OPERAND_SPEC,      /* a spec file or an image */
	OPERAND_IMAGE,
	OPERAND_FILE,
	OPERAND_COPY, /* a file or SANDBOX:PATH */
	OPERAND_DRIVER,
	OPERAND_SHELL,
	OPERAND_VERB,
};

enum cmd_flag {
	CMD_JSON = 1u << 0,      /* takes --json */
	CMD_COMMAND = 1u << 1,   /* options end at the first operand: the rest is a command */
	CMD_OWN_ERROR = 1u << 2, /* passes an exit code through, so its own failures are 125 */
	CMD_NO_QUIET = 1u << 3,  /* has no progress that --quiet could silence */
	CMD_NO_PATHS = 1u << 4,  /* needs neither daemon nor directories, and so no HOME */
};

struct cmd {
	const char *name;     /* "up"; both words of a subcommand, "image build" */
	const char *group;    /* heading in `moat help` */
	const char *synopsis; /* operands only; options are in the table */
	const char *summary;
	const char *about; /* paragraphs below the summary; may be NULL */
	const char *examples;
	const struct opt *opts; /* may be NULL */
	unsigned min, max;      /* number of operands; both 0: none */
	enum operand operand;
	unsigned flags;
	const struct cmd *const
		*subs; /* subcommands, NULL at the end; a verb with these has no run */
	/* Returns the exit code, or -1 with e filled. */
	int (*run)(struct cli *cli, struct err *e);
};
#define OPERANDS_ANY 1000000u

extern const struct cmd cmd_up, cmd_run, cmd_ls, cmd_exec, cmd_cp, cmd_shell, cmd_ssh_config,
	cmd_ssh_proxy, cmd_screenshot, cmd_input, cmd_screen, cmd_logs, cmd_rm, cmd_detach,
	cmd_snapshot, cmd_snapshots, cmd_restore, cmd_fork, cmd_standby, cmd_image, cmd_image_build,
	cmd_image_pull, cmd_image_import, cmd_image_commit, cmd_image_export, cmd_image_warm,
	cmd_image_templates, cmd_image_cool, cmd_pool, cmd_proxmox, cmd_doctor, cmd_gc, cmd_serve,
	cmd_info, cmd_net, cmd_forward, cmd_capture, cmd_web, cmd_schema, cmd_version, cmd_help,
	cmd_completion;

/* All verbs in the order of `moat help`; NULL at the end. */
extern const struct cmd *const cmd_table[];
/* Options of all verbs, except where a verb's flags exclude one. */
extern const struct opt cmd_common_opts[];
bool cmd_takes_common(const struct cmd *cmd, const struct opt *opt);

/* The verb called `word`, or NULL. Matches whole names only: a new verb must not break scripts that
 * abbreviate an old one. */
const struct cmd *cmd_find(const struct cmd *const *table, const char *word);
/* Fills e with "no verb ...; did you mean ...?". */
int cmd_fail_unknown(const struct cmd *const *table, const char *word, struct err *e);

/* What `moat serve` asks of the daemon; daemon/daemon.h has the meanings. */
struct serve_options {
	int ready_fd;
	bool leave_when_idle, any_config;
};
/* Runs the daemon: returns when it has ended. */
typedef int serve_fn(const struct serve_options *options, struct err *e);

int cli_main(int argc, char **argv, serve_fn *serve);
