/*
 * How it works: cli_main finds the verb in cmd_table, parses its options by its table and calls its
 * run(). A verb makes requests of the daemon through cli.h, prints, and returns an exit code, or -1
 * with an error. Only this file prints that error and turns it into an exit code.
 */
#include "cli/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/args.h"
#include "cli/cli.h"
#include "cli/help.h"
#include "cli/terminal/signals.h"
#include "util/auto.h"
#include "util/suggest.h"

const struct cmd *const cmd_table[] = {
	&cmd_up,
	&cmd_run,
	&cmd_ls,
	&cmd_exec,
	&cmd_shell,
	&cmd_cp,
	&cmd_ssh_config,
	&cmd_ssh_proxy,
	&cmd_logs,
	&cmd_screenshot,
	&cmd_input,
	&cmd_screen,
	&cmd_snapshot,
	&cmd_snapshots,
	&cmd_restore,
	&cmd_fork,
	&cmd_standby,
	&cmd_detach,
	&cmd_rm,
	&cmd_web,
	&cmd_net,
	&cmd_forward,
	&cmd_capture,
	&cmd_image,
	&cmd_pool,
	&cmd_proxmox,
	&cmd_doctor,
	&cmd_gc,
	&cmd_serve,
	&cmd_info,
	&cmd_schema,
	&cmd_completion,
	&cmd_version,
	&cmd_help,
	NULL,
};

const struct opt cmd_common_opts[] = {
	{0, "json", NULL, "print one JSON document instead of text"},
	{0, "quiet", NULL, "no progress and no notes on stderr"},
	{'h', "help", NULL, "show this help"},
	{0},
};

bool cmd_takes_common(const struct cmd *cmd, const struct opt *opt)
{
	if (strcmp(opt->name, "json") == 0)
		return cmd->flags & CMD_JSON;
	if (strcmp(opt->name, "quiet") == 0)
		return !(cmd->flags & CMD_NO_QUIET);
	return true;
}

const struct cmd *cmd_find(const struct cmd *const *table, const char *word)
{
	for (; *table; table++) {
		const char *space = strchr((*table)->name, ' ');

		if (strcmp(space ? space + 1 : (*table)->name, word) == 0)
			return *table;
	}
	return NULL;
}

/* Finds our verb for what other tools call it. NULL: we know no such word. */
static const char *foreign_verb(const char *word)
{
	static const char *const words[][2] = {{"ps", "ls"}, {"list", "ls"}, {"top", "ls --watch"},
		{"watch", "ls --watch"}, {"stats", "ls --watch"}, {"status", "ls"}, {"stop", "rm"},
		{"down", "rm"}, {"kill", "rm"}, {"destroy", "rm"}, {"delete", "rm"}, {"halt", "rm"},
		{"start", "up"}, {"create", "up"}, {"launch", "up"}, {"ssh", "shell"},
		{"sftp", "cp"}, {"scp", "cp"}, {"enter", "shell"}, {"console", "logs"},
		{"clone", "fork"}, {"rollback", "restore"}, {"build", "image build"},
		{"import", "image import"}, {"images", "image ls"}, {"rmi", "image rm"}};

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strcmp(word, words[i][0]) == 0)
			return words[i][1];
	return NULL;
}

int cmd_fail_unknown(const struct cmd *const *table, const char *word, struct err *e)
{
	struct suggestion best = {0};

	if (word[0] == '-')
		return args_fail(e, "no option %s before the verb", word);
	if (table == cmd_table && foreign_verb(word))
		return args_fail(e, "no verb \"%s\"; here it is \"%s\"", word, foreign_verb(word));
	for (; *table; table++) {
		const char *space = strchr((*table)->name, ' ');

		suggest_consider(&best, word, strlen(word), space ? space + 1 : (*table)->name);
	}
	if (best.word)
		return args_fail(e, "no verb \"%s\"; did you mean \"%s\"?", word, best.word);
	return args_fail(e, "no verb \"%s\"", word);
}

/* Opens stdin, stdout and stderr if they are closed: otherwise the next file that we open would get
 * our output. */
static void open_std_fds(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR); /* no O_CLOEXEC: children may inherit these three */
	while (fd >= 0 && fd <= 2);
	if (fd > 2)
		close(fd);
}

/* With --json, stdout gets one document, even for an error. */
static void print_json_error(const struct err *e)
{
	auto_json json_t *doc = json_pack("{s:o}", "error", cli_error_json(e));
	struct screen screen;
	struct err ignored;

	screen_init(&screen);
	if (doc)
		print_json(&screen, doc, &ignored);
}

static int fail_usage(const struct cmd *cmd, bool json, const struct err *e)
{
	fprintf(stderr, "moat%s%s: ", cmd ? " " : "", cmd ? cmd->name : "");
	print_safe_lines(stderr, e->msg);
	if (cmd && !cmd->subs)
		fprintf(stderr, "usage: moat %s [OPTION...] %s\n", cmd->name, cmd->synopsis);
	fprintf(stderr, "see `moat help%s%s`\n", cmd ? " " : "", cmd ? cmd->name : "");
	if (json)
		print_json_error(e);
	return cmd && (cmd->flags & CMD_OWN_ERROR) ? EXIT_OWN_ERROR : EXIT_USAGE;
}

static int report(struct cli *cli, const struct err *e)
{
	enum exit_code code = cli_code_of(e);

	if (args_failed(e))
		return fail_usage(cli->args->cmd, cli->json, e);
	if (code == EXIT_INTERRUPTED && signals_seen())
		cli_note(cli, "interrupted");
	else
		cli_print_error(cli, e);
	if (cli->json)
		print_json_error(e);
	if ((cli->args->cmd->flags & CMD_OWN_ERROR) && code != EXIT_INTERRUPTED)
		return EXIT_OWN_ERROR;
	return code;
}

static int run(const struct args *args, serve_fn *serve)
{
	struct cli cli = {.args = args, .serve = serve};
	struct err e;
	int code;

	screen_init(&cli.screen);
	cli.json = (args->cmd->flags & CMD_JSON) && args_has(args, "json");
	cli.quiet = args_has(args, "quiet");
	progress_init(&cli.progress, &cli.screen, cli.quiet);
	code = args->cmd->flags & CMD_NO_PATHS ? 0 : paths_load(&cli.paths, &e);
	if (code == 0)
		code = args->cmd->run(&cli, &e);
	progress_clear(&cli.progress);
	if (code >= 0 && check_stdout(&e) < 0)
		code = -1;
	if (code < 0)
		code = report(&cli, &e);
	client_close(cli.client);
	paths_free(&cli.paths);
	return code;
}

/* Finds the verb, with the second word of verbs that have subcommands. On failure *known is the
 * verb of the first word, if there is one. */
static const struct cmd *choose(char ***argv, const struct cmd **known, struct err *e)
{
	const struct cmd *cmd = cmd_find(cmd_table, **argv);

	*known = cmd;
	if (!cmd) {
		cmd_fail_unknown(cmd_table, **argv, e);
		return NULL;
	}
	++*argv;
	if (cmd->subs && **argv && ***argv != '-') {
		const struct cmd *sub = cmd_find(cmd->subs, **argv);

		if (!sub) {
			cmd_fail_unknown(cmd->subs, **argv, e);
			return NULL;
		}
		++*argv;
		return sub;
	}
	return cmd;
}

/* The number of words before the verb that are options of all verbs: `moat --json ls`. */
static size_t count_leading(char **argv)
{
	size_t n = 0;

	while (argv[n] && (strcmp(argv[n], "--json") == 0 || strcmp(argv[n], "--quiet") == 0))
		n++;
	return n;
}

/* The verb that a lone option stands for. */
static const char *verb_of_option(const char *word)
{
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
		return "help";
	if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0 || strcmp(word, "-v") == 0)
		return "version";
	return word;
}

int cli_main(int argc, char **argv, serve_fn *serve)
{
	auto_args struct args args = {0};
	const struct cmd *cmd, *known;
	char **leading;
	size_t n;
	struct err e;

	open_std_fds();
	leading = argv + 1;
	n = argc > 0 ? count_leading(leading) : 0;
	if (argc < 2 || !leading[n]) {
		help_overview(stderr);
		return EXIT_USAGE;
	}
	argv = leading + n;
	*argv = (char *)(uintptr_t)verb_of_option(*argv);
	cmd = choose(&argv, &known, &e);
	/* The table of the verb says whether it takes them: they go behind it. */
	memmove(argv - n, leading, n * sizeof(*argv));
	argv -= n;
	if (!cmd)
		return fail_usage(known, args_has_json(NULL, argv), &e);
	if (args_parse(cmd, argv, &args, &e) < 0)
		return fail_usage(cmd, args_has_json(cmd, argv), &e);
	if (args_has(&args, "help")) {
		help_verb(stdout, cmd);
		return check_stdout(&e) < 0 ? EXIT_FAILED : EXIT_OK;
	}
	if (cmd->subs) {
		help_verb(stderr, cmd);
		return EXIT_USAGE;
	}
	return run(&args, serve);
}
